"""The page: `slicewise studio`. Data in, data out; the browser draws, this folder answers.

setting      what the page's controls say -> network, cluster, training
uploads      files that people drop: data, never code
scaling      every strategy by its closed form, at once
benches      settings that are priced, kept warm                            remembering  answers that were given before
editing      one plan: its layers, a layer's alternatives, changes          letters      slicings as the page holds them
jobs         the planner, in processes of its own                          exporting    files, and commands to type
lessons/     what Learn shows, with its numbers                            answers      all questions that the page asks
guards       who may ask: this page and nobody else                        routes, serving    the web, by Starlette
page/        HTML, CSS and ES modules, as they are sent                page_files  those, and what reports have too

Only `guards`, `routes` and `serving` need the extra `slicewise[studio]`.
"""
