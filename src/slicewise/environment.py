"""What the environment says to ranks: our launcher, and the user."""

FAILURE_FILE = "SLICEWISE_FAILURE_FILE"
MEETING_FILE = "SLICEWISE_MEETING_FILE"  # through which ranks of this launcher find each other: no port to listen on
LAUNCHER = "SLICEWISE_LAUNCHER"  # its process
PLACE_FILE = "SLICEWISE_PLACE_FILE"  # where a rank marks how far it has come
OF_LAUNCHER = (FAILURE_FILE, MEETING_FILE, LAUNCHER, PLACE_FILE)
REALTIME = "SLICEWISE_REALTIME"  # the user's: 1 lets messages go before compute in scripts too, 0 nowhere
