//! The failure code of an error of the network (HP-043), and which errors are our own fault and say nothing about the origin
//! (HP-049).

use std::error::Error;
use std::io;

use hedgerow_io::http::{ConnectError, SendError};
use hedgerow_origin::outcome::Reason;
use rustls::CertificateError;

/// We could not do our part: no file descriptor, no memory, too many connections of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own(pub String);

/// Why there is no connection.
///
/// # Errors
///
/// It is our own fault.
pub fn of_connect(error: &ConnectError) -> Result<Reason, Own> {
    match error {
        ConnectError::Resolution(error) => own(error).map_or(Ok(Reason::DnsError), Err),
        ConnectError::Denied(_) => Ok(Reason::AddressForbidden),
        ConnectError::Connect(error) => of_tcp(error),
        ConnectError::Tls(error) => of_handshake(error.as_ref()),
        // The list of errors may grow; an unknown one is told as what is nearest.
        _ => Ok(Reason::ConnectUnreachable),
    }
}

/// Why a request that a [`Client`](hedgerow_io::http::Client) sent has no answer.
///
/// # Errors
///
/// It is our own fault.
pub fn of_send(error: &SendError) -> Result<Reason, Own> {
    match error {
        SendError::Resolution(error) => own(error).map_or(Ok(Reason::DnsError), Err),
        SendError::Denied(_) => Ok(Reason::AddressForbidden),
        SendError::Connect(error) => of_tcp(error),
        SendError::Tls(error) => of_handshake(error.as_ref()),
        SendError::Protocol(_) => Ok(Reason::MalformedResponse),
        SendError::TooManyConnections { .. } => Err(Own(error.to_string())),
        // `Reset`, and what may come.
        _ => Ok(Reason::ConnectionReset),
    }
}

/// Why an open connection broke before a response head was complete.
#[must_use]
pub fn of_broken(error: &io::Error) -> Reason {
    // A server may complain of the handshake only when it is over for us: that it wants a certificate, for example.
    match tls_error(error) {
        Some(rustls::Error::AlertReceived(_)) => Reason::TlsHandshake,
        _ => Reason::ConnectionReset,
    }
}

fn of_tcp(error: &io::Error) -> Result<Reason, Own> {
    if let Some(own) = own(error) {
        return Err(own);
    }
    Ok(match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        // It was accepted, and reset before it was looked at.
        | io::ErrorKind::NotConnected => Reason::ConnectRefused,
        io::ErrorKind::TimedOut => Reason::ConnectTimeout,
        _ => Reason::ConnectUnreachable,
    })
}

fn of_handshake(error: &(dyn Error + 'static)) -> Result<Reason, Own> {
    let mut io_error = None;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Ok(of_tls(tls));
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            if let Some(tls) = tls_error(error) {
                return Ok(of_tls(tls));
            }
            if let Some(own) = own(error) {
                return Err(own);
            }
            io_error = Some(error);
        }
        next = error.source();
    }
    Ok(match io_error {
        // A close or a reset in the middle of it.
        Some(_) => Reason::TlsHandshake,
        // There is no root that a certificate could lead to.
        None => Reason::TlsUntrusted,
    })
}

/// The TLS error in an error of reading or writing.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn of_tls(error: &rustls::Error) -> Reason {
    let rustls::Error::InvalidCertificate(error) = error else {
        return Reason::TlsHandshake;
    };
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Reason::TlsExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Reason::TlsNameMismatch
        }
        CertificateError::BadEncoding => Reason::TlsHandshake,
        _ => Reason::TlsUntrusted,
    }
}

/// HP-049: what this process has run out of.
fn own(error: &io::Error) -> Option<Own> {
    // EMFILE, ENFILE, ENOBUFS and ENOMEM have no kind of their own but the last; their numbers differ between systems.
    const NUMBERS: &[i32] = if cfg!(target_os = "linux") {
        &[24, 23, 105, 12]
    } else {
        &[24, 23, 55, 12]
    };
    let is_number = error
        .raw_os_error()
        .is_some_and(|number| NUMBERS.contains(&number));
    let is_own = is_number || error.kind() == io::ErrorKind::OutOfMemory;
    is_own.then(|| Own(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(number: i32) -> Result<Reason, Own> {
        of_connect(&ConnectError::Connect(io::Error::from_raw_os_error(number)))
    }

    /// HP-043: what the system says of a connection.
    #[test]
    #[cfg(target_os = "linux")]
    fn errors_of_tcp_have_their_codes() {
        let rows = [
            (111, Reason::ConnectRefused),
            (104, Reason::ConnectRefused),
            (101, Reason::ConnectUnreachable),
            (113, Reason::ConnectUnreachable),
            (99, Reason::ConnectUnreachable),
            (1, Reason::ConnectUnreachable),
            (110, Reason::ConnectTimeout),
        ];
        for (number, expect) in rows {
            assert_eq!(connect(number), Ok(expect), "{number}");
        }
    }

    /// HP-049: without file descriptors, buffers or memory nothing is said about the origin.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_we_have_run_out_of_is_our_own_fault() {
        for number in [24, 23, 105, 12] {
            assert!(connect(number).is_err(), "{number}");
            let error = io::Error::from_raw_os_error(number);
            assert!(of_connect(&ConnectError::Resolution(error)).is_err());
            let error = io::Error::from_raw_os_error(number);
            assert!(of_connect(&ConnectError::Tls(error.into())).is_err());
        }
    }

    /// HP-043: what TLS says, however deep it is wrapped.
    #[test]
    fn errors_of_tls_have_their_codes() {
        use rustls::Error::InvalidCertificate;
        let rows = [
            (
                InvalidCertificate(CertificateError::Expired),
                Reason::TlsExpired,
            ),
            (
                InvalidCertificate(CertificateError::NotValidYet),
                Reason::TlsExpired,
            ),
            (
                InvalidCertificate(CertificateError::UnknownIssuer),
                Reason::TlsUntrusted,
            ),
            (
                InvalidCertificate(CertificateError::Revoked),
                Reason::TlsUntrusted,
            ),
            (
                InvalidCertificate(CertificateError::NotValidForName),
                Reason::TlsNameMismatch,
            ),
            (rustls::Error::DecryptError, Reason::TlsHandshake),
        ];
        for (error, expect) in rows {
            let wrapped = io::Error::new(io::ErrorKind::InvalidData, error.clone());
            for error in [
                Box::new(error) as Box<dyn Error + Send + Sync>,
                wrapped.into(),
            ] {
                assert_eq!(of_connect(&ConnectError::Tls(error)), Ok(expect));
            }
        }
        let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(
            of_connect(&ConnectError::Tls(closed.into())),
            Ok(Reason::TlsHandshake)
        );
        let no_roots = ConnectError::Tls("there are no roots".into());
        assert_eq!(of_connect(&no_roots), Ok(Reason::TlsUntrusted));
    }
}
