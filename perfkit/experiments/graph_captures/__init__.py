"""Joins replayed graphs to the ops that were called during their capture: `perfkit analyze --capture`.

A replay runs kernels and calls no op; while a graph is captured ops are called, and no kernel runs. vLLM, SGLang and
xDiT record both, in traces of their own. What joins them is the order in which the capture made the graph's nodes:

    captured    a trace of captures --> each graph's launches in order, each with its op
    align       the launches of a capture and the kernels of a replay, node by node
    choose      which capture a graph came from, or why that is not known
    join        the captured ops as the replayed kernels' own, so that they are costed as any other

Tests model the traces on the sources of these projects, and cut a recorded eager pass into a capture and a replay.
"""
