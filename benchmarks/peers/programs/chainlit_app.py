"""Chainlit: a page whose messages are streamed to the browser. Without a data layer it stores nothing."""

import chainlit
from model_tokens import tokens


@chainlit.on_message
async def answer(message: chainlit.Message) -> None:
    reply = chainlit.Message(content="")
    async for token in tokens(message.content):
        await reply.stream_token(token)
    await reply.update()
