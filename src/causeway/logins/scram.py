"""SCRAM as RFC 5802 and Kafka have it, with the checks that kafka-python leaves out."""

from __future__ import annotations

from kafka.net.sasl.scram import ScramClient

from causeway.errors import AuthenticationError


class StrictScramClient(ScramClient):  # type: ignore[misc]
    """Refuses a broker that asks for too few iterations, unlike kafka-python. If name and password
    are those of a delegation token, it says so by Kafka's extension `tokenauth` (KIP-48)."""

    least_iterations = 4096  # RFC 7677's and Java's
    subject = ""
    is_delegation_token = False

    def first_message(self) -> bytes:
        message: bytes = super().first_message()
        if self.is_delegation_token:
            extension = b",tokenauth=true"
            self.auth_message += extension
            message += extension
        return message

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if iterations < self.least_iterations:
            # With few iterations, the password can be guessed from the proof at low cost.
            raise AuthenticationError(
                "authenticate to",
                self.subject,
                f"it asks for {iterations} iterations of SCRAM, fewer than {self.least_iterations}",
                remedy="is it the broker it claims to be? if so, set the user's password again "
                "with as many iterations",
            )
        super().create_salted_password(salt, iterations)
