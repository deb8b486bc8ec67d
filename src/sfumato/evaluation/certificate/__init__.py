"""What an anonymizer leaves on a site's own footage, and the document that says so to a data-protection officer."""

from sfumato.evaluation.certificate.document import Certificate, Finding, Utility
from sfumato.evaluation.certificate.examination import Scale, certify
from sfumato.evaluation.certificate.verdict import Exposure

__all__ = ["Certificate", "Exposure", "Finding", "Scale", "Utility", "certify"]
