"""What knowledge does for a request on its way: the operator's documents in it, or embeddings made on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import gevent

from hermes.accounting.exchange import Exchange
from hermes.chatrequest import ChatRequest, room_tokens
from hermes.contractrequest import with_reference
from hermes.embeddingrequest import EmbeddingRequest
from hermes.errors import DeadlineExceeded
from hermes.halves import LOCAL_EMBEDDER, Incoming
from hermes.knowledge import embeddings
from hermes.knowledge.ground import Asked, Grounder, is_asked_for
from hermes.knowledge.vectors import LocalModel
from hermes.policy import Policy
from hermes.reply import Reply
from hermes.routing.conversation import last_user_text
from hermes.types import Allowance, Cascade
from hermes.upstream.lifeline import Lifeline

CHARS_PER_TOKEN = 2


class Knowing:
    """The gateway's way to knowledge."""

    def __init__(
        self, grounder: Grounder, local_model: LocalModel, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._grounder = grounder
        self._local_model = local_model
        self._clock = clock

    def informed(
        self, incoming: Incoming, cascade: Cascade, policy: Policy, allowance: Allowance, exchange: Exchange
    ) -> ChatRequest | EmbeddingRequest:
        """The request with what the operator's documents say to it; as it is where nobody asks for that.

        Args:
            cascade: who shall answer; what is added must fit the window of the first who may.
        """
        chat = incoming.chat
        if incoming.role is None or not isinstance(chat, ChatRequest):
            return chat
        if not is_asked_for(incoming.context_hint, incoming.use_case, policy.knowledge):
            return chat
        first = next(filter(allowance.permits, cascade.endpoints), cascade.endpoints[0])
        room = room_tokens(chat, first, exchange.prompt_tokens())
        asked = Asked(incoming.context_hint, incoming.use_case, last_user_text(chat.messages) or "", room)
        grounded = self._grounder.ground(asked, policy, allowance)
        exchange.waited(grounded.waited_ms)
        if not grounded.noted:
            return chat
        known = with_reference(chat, grounded.message)
        exchange.grounded(known.messages, grounded.noted)
        return known

    def embedded(
        self,
        incoming: Incoming,
        exchange: Exchange,
        headers: Sequence[tuple[str, str]],
        lifeline: Lifeline,
        until: float,
    ) -> Reply:
        """The answer of the model in this process; its row is written before its first byte leaves.

        Args:
            headers: further ones of the answer.
            until: when the request is over, on the monotonic clock.

        Raises:
            InvalidRequest, EmbedderFailed, DeadlineExceeded: there is none.
        """

        over = DeadlineExceeded(
            "The time for this request is over; send fewer or shorter texts.", (), retry_after_s=1.0
        )

        def between() -> None:
            lifeline.check()
            if self._clock() > until:
                raise over

        exchange.turned_to(LOCAL_EMBEDDER, 0)
        between()
        # The timeout ends a wait for the model, `between` what does not wait.
        with lifeline, gevent.Timeout(max(0.0, until - self._clock()), over):
            body, usage = embeddings.answer(self._local_model, incoming.chat.body, between)
        exchange.settle("ok", usage=usage)
        told = [("X-Hermes-Model", LOCAL_EMBEDDER.model), ("X-Hermes-Cost-Usd", "0.000000000")]
        return Reply(200, [*told, *headers, ("Content-Type", "application/json")], [body])


def may_add_tokens(incoming: Incoming, policy: Policy) -> int:
    """How many tokens the operator's documents may add to a request's prompt; of a text in two bytes a character."""
    if incoming.role is None or not policy.knowledge.enabled:
        return 0
    is_asked = is_asked_for(incoming.context_hint, incoming.use_case, policy.knowledge)
    return policy.knowledge.max_chars // CHARS_PER_TOKEN if is_asked else 0
