"""Floor `net`: asyncio lives here and nowhere below."""
