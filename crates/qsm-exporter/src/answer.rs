use qsm_metrics::prometheus::OPEN_METRICS_CONTENT_TYPE;

/// Most header fields of a request.
const FIELDS_MAX: usize = 64;

const TEXT: &str = "text/plain; charset=utf-8";

/// The head of a request, as far as it has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Partial,
    Whole(Request),
    /// It is no HTTP, or has too many header fields.
    Wrong,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    method: Method,
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Other,
}

impl Head {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(bytes) {
            Ok(httparse::Status::Partial) => Self::Partial,
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.unwrap_or_default();
                let path = path.split_once('?').map_or(path, |(path, _)| path);
                Self::Whole(Request {
                    method: match request.method {
                        Some("GET") => Method::Get,
                        Some("HEAD") => Method::Head,
                        _ => Method::Other,
                    },
                    path: path.to_owned(),
                })
            }
            Err(_) => Self::Wrong,
        }
    }
}

/// An answer; the connection ends with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    status: &'static str,
    kind: &'static str,
    allow: bool,
    body: String,
    /// Only the head of it is asked for.
    bare: bool,
}

impl Answer {
    fn text(status: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            kind: TEXT,
            allow: false,
            body: text.into() + "\n",
            bare: false,
        }
    }

    /// To what cannot be understood.
    pub(crate) fn bad_request() -> Self {
        Self::text(
            "400 Bad Request",
            "not a request of HTTP/1; ask for /metrics",
        )
    }

    /// To a request whose head does not end.
    pub(crate) fn too_long() -> Self {
        let status = "431 Request Header Fields Too Large";
        Self::text(status, "the request is too long; ask for /metrics alone")
    }

    /// To a request; `page` is called if it asks for the metrics.
    pub(crate) fn to(request: &Request, page: &dyn Fn() -> Result<String, String>) -> Self {
        let answer = match (request.method, request.path.as_str()) {
            (Method::Other, _) => Self {
                allow: true,
                ..Self::text("405 Method Not Allowed", "metrics are read with GET")
            },
            (_, "/metrics") => match page() {
                Ok(body) => Self {
                    status: "200 OK",
                    kind: OPEN_METRICS_CONTENT_TYPE,
                    allow: false,
                    body,
                    bare: false,
                },
                Err(cause) => Self::text("503 Service Unavailable", cause),
            },
            (_, "/") => Self::text("200 OK", "metrics of Quicksilver are at /metrics"),
            _ => Self::text("404 Not Found", "nothing is here; metrics are at /metrics"),
        };
        Self {
            bare: request.method == Method::Head,
            ..answer
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let allow = if self.allow {
            "Allow: GET, HEAD\r\n"
        } else {
            ""
        };
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len(),
        );
        if !self.bare {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &str) -> String {
        let Head::Whole(request) = Head::read(request.as_bytes()) else {
            panic!("{request:?} is not whole");
        };
        let page = || Ok("# EOF\n".to_owned());
        String::from_utf8(Answer::to(&request, &page).to_bytes()).unwrap()
    }

    #[test]
    fn a_page_says_its_type_and_length() {
        let answer = answer("GET /metrics?name=x HTTP/1.1\r\nHost: a\r\n\r\n");
        for part in [
            "HTTP/1.1 200 OK\r\n",
            "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n",
            "Content-Length: 6\r\n",
            "Connection: close\r\n\r\n# EOF\n",
        ] {
            assert!(answer.contains(part), "{part}: {answer}");
        }
    }

    #[test]
    fn other_requests_are_answered_with_what_to_do() {
        let head = answer("HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"));
        let post = answer("POST /metrics HTTP/1.1\r\n\r\n");
        assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("Allow: GET, HEAD"));
        assert!(answer("GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(answer("GET / HTTP/1.1\r\n\r\n").contains("at /metrics"));
        assert_eq!(Head::read(b"GET /metr"), Head::Partial);
        assert_eq!(Head::read(b"\x16\x03\x01\x02\x00"), Head::Wrong);
        let many = "A: b\r\n".repeat(FIELDS_MAX + 1);
        let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
        assert_eq!(Head::read(many.as_bytes()), Head::Wrong);
    }

    #[test]
    fn a_page_that_cannot_be_had_says_why() {
        let Head::Whole(request) = Head::read(b"GET /metrics HTTP/1.1\r\n\r\n") else {
            panic!("not whole");
        };
        let answer = Answer::to(&request, &|| Err("the node has ended".to_owned()));
        let text = String::from_utf8(answer.to_bytes()).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 ") && text.ends_with("the node has ended\n"));
    }
}
