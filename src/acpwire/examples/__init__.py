"""Six programs to begin from; each runs with `python -m acpwire.examples.NAME`.

    streaming_agent   an agent around a model that streams: thoughts, tools, a process in a terminal, permission, cancel
    resuming_agent    an agent whose sessions outlive it, in files
    client_script     one prompt to any agent, from a script
    editor            many sessions at once, their children, and an agent that is started again when it crashes
    recording_proxy   stands between any client and any agent, and takes down what they say
    analyser          what is in captures of any size

Owns: nothing of the library. They use public names alone, and know each other not at all: copy one and change it.
"""
