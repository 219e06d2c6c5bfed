"""A console in the browser for JetStream servers, bundled or genuine.

`asking` asks the servers and knows no page, `showing` turns what they say into text, `pages` put
both together. Needs `pip install 'jetstream-spark[console]'`; nothing else imports it.
"""

from __future__ import annotations
