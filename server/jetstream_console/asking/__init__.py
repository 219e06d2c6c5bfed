"""What the console asks servers: typed views, in pages, bounded; no page of a browser in it."""
