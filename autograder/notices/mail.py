"""A notice by mail."""

from __future__ import annotations

import re
import smtplib
import ssl
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

from autograder.notices.outbox import Message, NotSent
from autograder.notices.settings import Mail

SECONDS = 30.0
NEVER = range(500, 600)
"""Replies of SMTP that say: do not try this again (RFC 5321, 4.2.1)."""


def written(message: Message, settings: Mail) -> EmailMessage:
    """The mail as it goes out.

    Raises
    ------
    NotSent
        The address or a text cannot stand in a header; for good.
    """
    mail = EmailMessage()
    told = message.content
    try:
        if any(sign in told["to"] for sign in ',;<>"\r\n ') or not re.fullmatch(r"[^@]+@[^@]+", told["to"]):
            raise ValueError(f"{told['to']!r} is not one address")
        mail["From"] = settings.sender
        mail["To"] = told["to"]
        mail["Subject"] = " ".join(told["subject"].split())
        mail["Date"] = formatdate(message.since)
        mail["Message-ID"] = f"<{message.key}@{settings.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(told["text"])
        mail.as_bytes()
    except (ValueError, KeyError, IndexError, MessageError, UnicodeError) as error:
        raise NotSent(f"mail: {error}", final=True) from None
    return mail


def send(message: Message, settings: Mail, folder: Path) -> None:
    """Hand a notice to the mail server; the password, if any, is in a file beside the settings.

    Raises
    ------
    NotSent
        The server did not take it.
    """
    mail = written(message, settings)
    context = ssl.create_default_context()
    try:
        if settings.encryption == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(settings.host, settings.port, timeout=SECONDS, context=context)
        else:
            server = smtplib.SMTP(settings.host, settings.port, timeout=SECONDS)
        with server:
            if settings.encryption == "starttls":
                server.starttls(context=context)
            if settings.user:
                server.login(settings.user, (folder / settings.password_file).read_text(encoding="utf-8").strip())
            server.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        raise NotSent(f"mail: {message.content['to']} was refused ({codes}).", final=codes[0] in NEVER) from None
    except smtplib.SMTPResponseException as error:
        words = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        raise NotSent(f"mail: {settings.host} answered {error.smtp_code} {words[:200]}.") from None
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise NotSent(f"mail: {settings.host}:{settings.port}: {error}.") from None
