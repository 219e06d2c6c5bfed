"""An account's streams: made, found, counted, lost and brought back."""
