"""What our launcher tells the ranks that it starts."""

FAILURE_FILE = "SLICEWISE_FAILURE_FILE"
MEETING_FILE = "SLICEWISE_MEETING_FILE"  # through which ranks of this launcher find each other: no port to listen on
LAUNCHER = "SLICEWISE_LAUNCHER"  # its process
PLACE_FILE = "SLICEWISE_PLACE_FILE"  # where a rank marks how far it has come
