"""LangGraph: a graph of one node that writes the model's tokens to the stream of its run."""

from typing import TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from model_tokens import tokens


class State(TypedDict, total=False):
    text: str
    answer: str


async def answer(state: State) -> State:
    write, parts = get_stream_writer(), []
    async for token in tokens(state["text"]):
        write(token)
        parts.append(token)
    return {"answer": "".join(parts)}


graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile()
