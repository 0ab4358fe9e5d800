"""`python -m benchmarks.devices.fit [--write] [--validate]`: fits what kernels reach to the published timings.

--write puts the result where predictions read it: data/fitted.json (`benchmarks.devices.run`) and the catalogue's
kernels.toml. --validate repeats the fit without some shapes and without some devices, and scores those.
"""

import argparse

from benchmarks.devices import fitted
from benchmarks.devices.catalogue import write
from benchmarks.devices.fitting import fit
from benchmarks.devices.run import report
from benchmarks.devices.samples import DATA, boards, timings
from benchmarks.devices.scores import predict, scores
from benchmarks.devices.validation import across_devices, across_shapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--validate", action="store_true")
    arguments = parser.parse_args()
    rows, described = timings(DATA).rows, boards(DATA)
    records = fit(rows, described)
    if arguments.write:
        fitted.save(records)
        write(fitted.load(), described)
    names = {row.device for row in rows}
    print("In-sample: the ceiling of this formula")
    report(scores(rows, predict(rows, {record.group: record for record in records}, described), names))
    if arguments.validate:
        print("\nShapes kept out, one fifth at a time")
        report(scores(rows, across_shapes(rows, described), names))
        print("\nDevices kept out, one at a time: by rule")
        report(scores(rows, across_devices(rows, described), set()))


if __name__ == "__main__":
    main()
