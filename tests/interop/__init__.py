"""Other SDKs at the other end: their clients drive our agent, our client drives their agents; both sides tell the same.

    comparing  what both directions need: folding, telling differences, known faults
    clients    the clients of others, which drive `agent_ours`
    agents     the agents of others, which our client drives, and what must come of it
    driving    that client
    story      what those have to tell
    variants   what there is to tell

The programs of others are `client_*`, `agent_*`, and `older_*`, agents of version 1; each runs in an environment of its
own.
"""
