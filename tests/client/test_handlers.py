"""The Client to derive from: what is not overridden says nothing that the user did not say."""

from __future__ import annotations

import asyncio

import pytest

from acpwire import v2
from acpwire.client import Client
from acpwire.errors import RequestError


def test_what_is_not_overridden_is_cautious_when_it_is_called_too() -> None:

    async def run() -> None:
        client = Client()
        with pytest.raises(RequestError, match="Method not found"):
            await client.mcp_message(v2.MessageMcpRequest(server_id="m", request_id="1", method="x"))
        form = v2.ElicitationFormMode(
            message="?", requested_schema=v2.ElicitationSchema(type="object", properties={}), request_id=1
        )
        assert await client.create_elicitation(None, form) == v2.ElicitationCancelAction()
        assert client.capabilities() == v2.ClientCapabilities()

    asyncio.run(run())
