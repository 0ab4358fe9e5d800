"""What Learn shows. The numbers are the package's own closed forms and plans, in tables that sliders look up.

machine    the small machine that every lesson runs on
closed     tables of the closed forms, with what goes into each          searched   plans of the layer-wise lessons
attention  tables of an attention layer by samples, heads and queries
tables     all of it, as documents                                       handout    the same as one file for a class
"""
