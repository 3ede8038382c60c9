import HTTPTypes
import Records
import RelayCore

/// The relay's pages for users: `/signin`, `/account` and their files.
///
/// They need no scripts except to pass the token to an opener, load nothing from other origins, and have no session.
struct Pages: Sendable {
    let authenticator: Authenticator
    let stores: any StoreCatalog
    let random: RandomSource
    let time: TimeSource
    /// The maximum number of participants of a share.
    let participantLimit: Int
    private let guardian: PageGuard
    var passwordQueue: SignInQueue { authenticator.passwordQueue }

    init(
        _ authenticator: Authenticator,
        stores: any StoreCatalog,
        limits: Limits,
        time: TimeSource,
        random: RandomSource
    ) {
        self.authenticator = authenticator
        self.stores = stores
        self.random = random
        self.time = time
        participantLimit = limits.participants
        guardian = PageGuard(relayKey: authenticator.relayKey)
    }

    var entries: [RouteEntry] {
        [
            .page("signin", .ending("signin"), .reading) { request, _ in showSignIn(request) },
            .page("signin", .ending("signin"), [.post]) { request, _ in await signIn(request) },
            .page("account", .ending("account"), .reading) { request, _ in
                let visit = visit(request)
                return visit.answer(AccountPage(formSeal: visit.formSeal).signInForm(), isSecure: isSecure)
            },
            .page("account", .ending("account"), [.post]) { request, _ in await changeAccount(request) },
            .page("signin/style.css", .ending("signin/style.css"), .reading) { _, _ in
                Self.file(PageStyle.css, "text/css")
            },
            .page("signin/hand-over.js", .ending("signin/hand-over.js"), .reading) { _, _ in
                Self.file(HandOverScript.javaScript, "text/javascript")
            },
            .page("share", .ending("share/{}/{}/{}"), [.get, .head, .post]) { request, match in
                guard let path = SharePagePath(match.parameters) else { return nil }
                return await respond(to: request, at: path)
            },
        ]
    }

    /// A request of a browser with its cookie, existing or new.
    struct Visit {
        var cookie: String
        var isNew: Bool
        var formSeal: String

        init(_ request: APIRequest, _ guardian: PageGuard, _ random: RandomSource) {
            let known = PageGuard.cookie(of: request)
            cookie = known ?? random.hex(byteCount: 16)
            isNew = known == nil
            formSeal = guardian.formSeal(cookie)
        }

        /// Returns the page as a response, which sets the cookie if it is new; with `isSecure` only for https.
        ///
        /// `destination`: the policy source to which a form of the page may redirect in addition to the relay.
        func answer(
            _ page: HTML,
            status: HTTPResponse.Status = .ok,
            isSecure: Bool,
            destination: String? = nil
        ) -> APIResponse {
            var response = APIResponse(status: status, body: Array(page.text.utf8))
            response.headers[.contentType] = "text/html; charset=utf-8"
            Pages.protect(&response, destination: destination)
            if isNew {
                response.headers[.setCookie] =
                    "\(PageGuard.cookieName)=\(cookie); Path=/; HttpOnly; SameSite=Strict\(isSecure ? "; Secure" : "")"
            }
            return response
        }
    }

    func visit(_ request: APIRequest) -> Visit { Visit(request, guardian, random) }

    /// Returns the fields of the form if this relay created it.
    func fields(of request: APIRequest) -> FormFields? {
        guard let fields = FormFields(request.body), guardian.isOwnForm(request, fields, ownHosts: ownHosts(request))
        else {
            return nil
        }
        return fields
    }

    func ticket(for account: Account.ID, _ visit: Visit) throws(CredentialRefusal) -> String {
        let fingerprint = try authenticator.passwordFingerprint(of: account)
        return guardian.ticket(for: account, passwordFingerprint: fingerprint, cookie: visit.cookie, at: time.now())
    }

    func account(ofTicket ticket: String, _ visit: Visit) throws(CredentialRefusal) -> Account.ID? {
        try guardian.account(
            ofTicket: ticket,
            cookie: visit.cookie,
            at: time.now(),
            passwordFingerprint: authenticator.passwordFingerprint(of:)
        )
    }

    var isSecure: Bool {
        authenticator.settings.publicURL?.hasPrefix("https://") ?? authenticator.settings.endsTLS
    }

    private func ownHosts(_ request: APIRequest) -> [String] {
        let known = authenticator.settings.publicURL.flatMap { address in
            address.split(separator: "://", maxSplits: 1).last?.split(separator: "/").first.map(String.init)
        }
        return [known, request.head.parsedHead.presented.host].compactMap { $0 }
    }

    // MARK: Answers

    private static func file(_ text: String, _ type: String) -> APIResponse {
        var response = APIResponse(status: .ok, body: Array(text.utf8))
        response.headers[.contentType] = "\(type); charset=utf-8"
        response.headers[.cacheControl] = "public, max-age=3600"
        response.headers[.xContentTypeOptions] = "nosniff"
        return response
    }

    /// Adds security headers: no foreign content, no frames, no caching, no referrer for other sites.
    ///
    /// `same-origin` instead of `no-referrer`, because with the latter browsers send `Origin: null` with the relay's
    /// own forms.
    static func protect(_ response: inout APIResponse, destination: String? = nil) {
        let goes = destination.map { " \($0)" } ?? ""
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'\(goes); "
            + "frame-ancestors 'none'; base-uri 'none'"
        response.headers[.cacheControl] = "no-store"
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[.referrerPolicy] = "same-origin"
        response.headers[.frameOptions] = "DENY"
    }
}

extension HTTPField.Name {
    static let referrerPolicy = known("Referrer-Policy")
    static let frameOptions = known("X-Frame-Options")

    private static func known(_ name: String) -> HTTPField.Name {
        guard let made = HTTPField.Name(name) else { preconditionFailure("\(name) is not a field name") }
        return made
    }
}

/// A fragment of a page.
///
/// Interpolated strings are escaped and interpolated fragments are not, so that text from users and requests cannot
/// become markup.
struct HTML: ExpressibleByStringInterpolation, Sendable {
    var text: String

    init(stringLiteral text: String) { self.text = text }
    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    struct StringInterpolation: StringInterpolationProtocol {
        var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        mutating func appendLiteral(_ literal: String) { text += literal }
        mutating func appendInterpolation(_ plain: String) { text += HTML.escaped(plain) }
        mutating func appendInterpolation(_ piece: HTML) { text += piece.text }
        mutating func appendInterpolation(_ piece: HTML?) { text += piece?.text ?? "" }
        mutating func appendInterpolation(_ pieces: [HTML]) { for piece in pieces { text += piece.text } }
    }

    /// Escapes text for use between tags and in quoted attributes.
    static func escaped(_ plain: String) -> String {
        var text = ""
        for scalar in plain.unicodeScalars {
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\"": text += "&quot;"
            case "'": text += "&#39;"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

/// The style sheet of the pages.
///
/// A separate file, so that the pages need no inline styles. Sizes follow the user's font size, and colours the light
/// or dark preference; contrast ratios are above 4.5, and controls are at least 44 pixels high.
enum PageStyle {
    static let css = """
        :root {
          color-scheme: light dark;
          --ground: #f5f6f8; --paper: #ffffff; --ink: #1c2733; --quiet: #52606d; --line: #7b8794;
          --strong: #0b5cad; --on-strong: #ffffff; --bad: #a61b1b; --bad-ground: #fdecec; --good-ground: #e6f4ea;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #12171d; --paper: #1b232c; --ink: #e6ebf0; --quiet: #a9b4c0; --line: #7d8a97;
            --strong: #7fb8f5; --on-strong: #0d1722; --bad: #ffb3b3; --bad-ground: #3d1a1c; --good-ground: #17351f;
          }
        }
        * { box-sizing: border-box; }
        body {
          margin: 0; padding: 1rem; min-height: 100vh; background: var(--ground); color: var(--ink);
          font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
        }
        main {
          max-width: 26rem; margin: 4vh auto 2rem; padding: 1.5rem; background: var(--paper);
          border: 1px solid var(--line); border-radius: .75rem; overflow-wrap: anywhere;
        }
        h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
        h2 { font-size: 1.125rem; margin: 2rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
        p { margin: .5rem 0; }
        .quiet { color: var(--quiet); font-size: .9375rem; }
        label { display: block; margin: 1rem 0 .25rem; font-weight: 600; }
        input[type=email], input[type=password], input[type=text] {
          width: 100%; min-height: 2.75rem; padding: .5rem .75rem; font: inherit; color: inherit;
          background: var(--paper); border: 1px solid var(--line); border-radius: .5rem;
        }
        input[aria-invalid=true] { border-color: var(--bad); border-width: 2px; }
        .choice { display: flex; gap: .75rem; align-items: flex-start; min-height: 2.75rem; margin: .75rem 0 0;
          padding: .625rem 0; font-weight: 400; }
        .choice input { width: 1.25rem; height: 1.25rem; margin: .125rem 0 0; flex: none; accent-color: var(--strong); }
        button {
          min-height: 2.75rem; padding: .5rem 1.25rem; margin: 1rem 0 0; font: inherit; font-weight: 600;
          color: var(--on-strong); background: var(--strong); border: 2px solid var(--strong); border-radius: .5rem;
          cursor: pointer;
        }
        button.wide { width: 100%; }
        button.second { color: var(--strong); background: transparent; margin: .5rem .5rem 0 0; }
        a { color: var(--strong); }
        a, button, input { outline-offset: 2px; }
        :focus-visible { outline: 3px solid var(--strong); }
        .notice { margin: 1rem 0; padding: .75rem 1rem; border-radius: .5rem; background: var(--good-ground); }
        .notice.bad { color: var(--bad); background: var(--bad-ground); }
        ul.plain { list-style: none; margin: 0; padding: 0; }
        ul.plain li { padding: .75rem 0; border-bottom: 1px solid var(--line); }
        ul.plain li:last-child { border-bottom: 0; }
        footer { max-width: 26rem; margin: 0 auto; text-align: center; }
        @media (max-width: 30rem) {
          body { padding: 0; }
          main { margin: 0; min-height: 80vh; border: 0; border-radius: 0; padding: 1.25rem; }
        }
        """
}

/// Passes the web auth token to the page that opened the window.
enum HandOverScript {
    /// The browser delivers the message only if the origin of the opener is one of those given.
    static let javaScript = """
        "use strict";
        (function () {
          var page = document.getElementById("hand-over");
          var status = document.getElementById("status");
          var token = page.getAttribute("data-token");
          var origins = page.getAttribute("data-origins").split(" ");
          page.removeAttribute("data-token");
          if (!window.opener) {
            status.textContent = "You are signed in, but the app that asked is no longer open. "
              + "Go back to it and sign in again.";
            return;
          }
          origins.forEach(function (origin) {
            window.opener.postMessage({ ckWebAuthToken: token, ckSession: token }, origin);
          });
          status.textContent = "You are signed in. You can close this window and go back to the app.";
          window.close();
        })();
        """
}
