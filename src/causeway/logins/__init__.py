"""How a client proves who it is: TLS contexts, SASL mechanisms, tokens. No text of this package
shows a secret."""

from causeway.logins.bearer import BearerLogin, BearerToken
from causeway.logins.mechanisms import Mechanism, remedy, sasl_mechanism
from causeway.logins.no_redirect import NoRedirect
from causeway.logins.tls import check_certificates, ssl_context
