"""`python -m jetstream_server` is the `jetstream-server` command."""

import sys

from jetstream_server.cli import main

sys.exit(main())
