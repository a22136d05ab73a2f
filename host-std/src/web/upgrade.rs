//! Opening requests of web sockets, and their admission.
//!
//! Every page that a browser has open can reach the ports of its machine, with the user of the browser. A
//! page of an origin other than this machine or those named is rejected: the browser sends the origin,
//! and no page can change it. The origin alone proves little, since another user may serve pages of this
//! machine, too; so the URL has to carry the token that was generated for the run. A peer that is no
//! browser sends no origin, and needs the token as well.

use std::cell::RefCell;
use std::rc::Rc;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::{HeaderMap, HeaderValue, StatusCode, header};

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A rank of the job: `Sec-WebSocket-Protocol: pmi`.
    Rank,
    /// An observer of the run: `Sec-WebSocket-Protocol: pmi-trace`.
    Watch,
}

/// Admission of one opening request.
#[derive(Clone, Debug)]
pub(super) struct Upgrade {
    /// Permitted origins, besides those of this machine.
    pub(super) origins: Rc<[String]>,
    /// Token of the run.
    pub(super) token: Rc<str>,
    /// Purpose of the connection, or the cause of its rejection, once that is decided.
    pub(super) verdict: Rc<RefCell<Option<Result<Purpose, String>>>>,
}

impl Callback for Upgrade {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let origin = request.headers().get(header::ORIGIN);
        if let Some(origin) = origin.filter(|origin| !is_allowed(origin, &self.origins)) {
            let shown = origin.as_bytes().escape_ascii();
            let why = format!("is a page of {shown}, which needs '--origin {shown}'");
            return Err(self.refuse(StatusCode::FORBIDDEN, why));
        }
        if !is_token(request.uri().query(), &self.token) {
            let why = "lacks the token of this run; use the URL that the launcher printed";
            return Err(self.refuse(StatusCode::FORBIDDEN, why.to_owned()));
        }
        let Some((purpose, name)) = wanted(request.headers()) else {
            let why = "requested an unknown protocol; 'pmi' is for ranks, and 'pmi-trace' for \
                       observers";
            return Err(self.refuse(StatusCode::BAD_REQUEST, why.to_owned()));
        };
        *self.verdict.borrow_mut() = Some(Ok(purpose));
        let mut response = response;
        let chosen = HeaderValue::from_static(name);
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, chosen);
        Ok(response)
    }
}

/// True if the query of the URL is the token of the run. The comparison takes constant time.
fn is_token(query: Option<&str>, token: &str) -> bool {
    let Some(given) = query.and_then(|query| query.strip_prefix(TOKEN)) else { return false };
    let differs = given.bytes().zip(token.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == token.len() && std::hint::black_box(differs) == 0
}

/// The first offered protocol that is supported.
fn wanted(headers: &HeaderMap) -> Option<(Purpose, &'static str)> {
    let offers = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut offers = offers.filter_map(|offer| offer.to_str().ok()).flat_map(|o| o.split(','));
    offers.find_map(|offer| match offer.trim() {
        RANK => Some((Purpose::Rank, RANK)),
        WATCH => Some((Purpose::Watch, WATCH)),
        _ => None,
    })
}

/// True if `origin` is permitted: one that was named, or one that this machine serves itself.
fn is_allowed(origin: &HeaderValue, named: &[String]) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let is_own = host.is_some_and(|host| {
        OWN.iter().any(|own| {
            let port = host.strip_prefix(own).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
            let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
            port.is_some_and(is_port)
                && (host.len() == own.len() || host[own.len()..].starts_with(':'))
        })
    });
    is_own || named.iter().any(|named| named == origin)
}

impl Upgrade {
    fn refuse(&self, status: StatusCode, why: String) -> ErrorResponse {
        let mut response = ErrorResponse::new(Some(format!("this {why}\n")));
        *response.status_mut() = status;
        *self.verdict.borrow_mut() = Some(Err(why));
        response
    }
}

/// Prefix of the token in the query of a URL.
pub(super) const TOKEN: &str = "token=";

const RANK: &str = "pmi";
const WATCH: &str = "pmi-trace";

/// Names that always mean the local machine.
const OWN: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &str)]) -> (u16, Option<Purpose>) {
        answer_at("/?token=7f3a", headers)
    }

    fn answer_at(uri: &str, headers: &[(&str, &str)]) -> (u16, Option<Purpose>) {
        let verdict = Rc::default();
        let origins = Rc::from(["https://lab.example".to_owned()]);
        let hello = Upgrade { origins, token: "7f3a".into(), verdict: Rc::clone(&verdict) };
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let status = match hello.on_request(&request, Response::new(())) {
            Ok(response) => response.status(),
            Err(response) => response.status(),
        };
        let granted = verdict.borrow().clone().and_then(Result::ok);
        (status.as_u16(), granted)
    }

    #[test]
    fn pages_of_others_are_refused_and_other_programs_are_not() {
        let pmi = ("Sec-WebSocket-Protocol", "pmi");
        assert_eq!(answer(&[pmi]), (200, Some(Purpose::Rank)));
        for origin in
            ["http://localhost", "http://127.0.0.1:8000", "https://[::1]:1", "https://lab.example"]
        {
            assert_eq!(answer(&[pmi, ("Origin", origin)]).0, 200, "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost:80.evil.example",
            "http://127.0.0.1.evil.example",
            "https://lab.example:8443",
            "file://",
        ] {
            assert_eq!(answer(&[pmi, ("Origin", origin)]), (403, None), "{origin}");
        }
    }

    #[test]
    fn token_of_the_url_is_needed_by_all() {
        let pmi = [("Sec-WebSocket-Protocol", "pmi")];
        let page = [pmi[0], ("Origin", "http://localhost")];
        for uri in
            ["/", "/?token=", "/?token=7f3", "/?token=7f3b", "/?token=7f3a0", "/7f3a", "/?7f3a"]
        {
            assert_eq!(answer_at(uri, &pmi), (403, None), "{uri}");
            assert_eq!(answer_at(uri, &page), (403, None), "{uri}");
        }
        assert_eq!(answer_at("/any/?token=7f3a", &page).0, 200);
    }

    #[test]
    fn subject_of_a_page_is_named_by_its_protocol() {
        let offer = |offer| answer(&[("Sec-WebSocket-Protocol", offer)]);
        assert_eq!(offer("chat, pmi-trace"), (200, Some(Purpose::Watch)));
        assert_eq!(offer("chat"), (400, None));
        assert_eq!(answer(&[]), (400, None));
    }
}
