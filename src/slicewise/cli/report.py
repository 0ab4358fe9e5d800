"""`slicewise report FILE... -o report.html`: plans, projections and runs as a page to look at."""

import argparse
from pathlib import Path

from slicewise.cli.options import patient, progress

HELP = "draw plans, projections and measured runs: one page that opens anywhere, or a single figure"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="plans, the --json of oracle, plan --pareto, run or diagnose, traces, measured runs (.csv)",
    )
    parser.add_argument(
        "--learn", action="store_true", help="the studio's lessons instead, as one page for a class; takes no files"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="write the report here")
    parser.add_argument("--format", help="html, md, svg or png (default: by the output's name, else html)")
    parser.add_argument(
        "--figure",
        metavar="NAME",
        help="of svg and png, which figure: plan, network, layers, memory, timeline, scaling, ...",
    )


def main(options: argparse.Namespace) -> int:
    from slicewise.errors import RequestError
    from slicewise.report.reporting import FORMATS, report
    from slicewise.saving import check_target, write_file

    if options.learn and (options.files or options.format or options.figure):
        raise RequestError("--learn is a page of its own; leave out files, --format and --figure")
    if not options.learn and not options.files:
        raise RequestError("name the files to draw: plans, the --json of other commands, traces; or ask for --learn")
    check_target(options.output)
    if options.learn:
        from slicewise.studio.lessons.handout import learn_page

        write_file(options.output, learn_page(patient(progress, 1.0)))
        progress(f"wrote {options.output}")
        return 0
    ending = options.output.suffix.removeprefix(".")
    made = report(
        options.files,
        format=options.format or (ending if ending in FORMATS else "html"),
        figure=options.figure,
        progress=patient(progress, 1.0),
    )
    write_file(options.output, made)
    progress(f"wrote {options.output}")
    return 0
