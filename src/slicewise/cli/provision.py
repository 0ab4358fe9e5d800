"""`slicewise provision MODEL`: how many devices for how long, between fast and cheap."""

import argparse
from typing import TYPE_CHECKING, Any

from slicewise.cli.options import add_json, duration, print_json
from slicewise.cli.oracle import add_request, counts, document_of, oracle_from, per_device, strategies_of
from slicewise.cli.spelling import speller
from slicewise.units import counted

if TYPE_CHECKING:
    from slicewise.strategies.options import Option

LEAST_CHANCE = 0.005  # of a deadline: less reads as 0 %
HELP = "what a training needs: devices, nodes, hours and cost of every option worth having"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_request(parser, needs_batch=False)
    parser.add_argument("--epochs", type=per_device, metavar="E", required=True, help="passes over the data set")
    parser.add_argument("--devices", type=counts, metavar="P,P,...", help="counts to look at (default: 1,2,...,1024)")
    parser.add_argument("--deadline", type=duration, metavar="TIME", help="must be done in this time, as 12h")
    parser.add_argument("--gpu-hours", type=per_device, metavar="H", help="no more device-hours than these")
    parser.add_argument("--price", type=per_device, metavar="PRICE", help="of one device-hour, in any currency")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.strategies.options import frontier, options_of, within
    from slicewise.strategies.projecting import checked_counts, table_of
    from slicewise.strategies.provisioning import PER_DEVICE, counts_for

    names = strategies_of(options)
    weak = options.batch_per_device or (None if options.batch else PER_DEVICE)
    oracle = oracle_from(options, weak)
    wanted = checked_counts(options.devices or counts_for(weak))
    table = table_of(oracle, names, wanted)
    deadline_h = options.deadline / 3600 if options.deadline else None
    every = options_of(table, wanted, epochs=options.epochs, price=options.price, deadline_h=deadline_h)
    kept = within(frontier(every), deadline_h=deadline_h, device_hours=options.gpu_hours)
    missed = None if kept else speller(options)(_missed(every, deadline_h, options.gpu_hours))
    if options.json:
        told = {"options": [option.to_dict() for option in kept], "missed": missed}
        print_json({**_asked(options, document_of(table, options)), **told})
    else:
        from slicewise.report.provision import show_options

        show_options(oracle, kept, epochs=options.epochs, missed=missed, spelled=speller(options))
    return 0 if kept else 1


def _asked(options: argparse.Namespace, table: dict[str, Any]) -> dict[str, Any]:
    asked = {name: value for name, value in table.items() if name != "rows"}
    limits = {"epochs": options.epochs, "deadline_s": options.deadline, "gpu_hours": options.gpu_hours}
    return asked | limits | {"price": options.price}


def _missed(every: "list[Option]", deadline_h: float | None, device_hours: float | None) -> str:
    """Why nothing is left, and what would do."""
    if not every:
        return "no strategy is possible on any of these device counts; `slicewise oracle` says why"
    fastest, cheapest = min(every, key=lambda o: o.hours), min(every, key=lambda o: o.device_hours)
    asked = [_counted(deadline_h, "hour")] if deadline_h is not None else []
    asked += [_counted(device_hours, "device-hour")] if device_hours is not None else []
    told = (
        f"nothing keeps {' and '.join(asked)}: the fastest is {counted(fastest.row.devices)} in {fastest.hours:,.2f} "
        f"hours ({fastest.device_hours:,.1f} device-hours), the cheapest {cheapest.row.devices} in "
        f"{cheapest.hours:,.2f} ({cheapest.device_hours:,.1f})"
    )
    affordable = [option for option in every if device_hours is None or option.device_hours <= device_hours] or every
    if deadline_h is None or any(option.hours <= deadline_h for option in affordable):
        return told
    return f"{told}. {_likeliest(affordable)}"


def _likeliest(options: "list[Option]") -> str:
    """Where a range may reach the deadline although its middle does not."""
    best = max(options, key=lambda option: option.deadline_chance or 0.0)
    if (best.deadline_chance or 0.0) < LEAST_CHANCE:
        return "None has a chance to keep the deadline."
    told = f"The best chance to keep the deadline is {best.deadline_chance:.0%}: {best}."
    if best.row.doubt.other_software == 1:
        return told
    return f'{told} Much depends on which software trains: say `software="plain"` or `software="tuned"`.'


def _counted(number: float, what: str) -> str:
    return f"{number:.3g} {what}{'s' * (number != 1)}"
