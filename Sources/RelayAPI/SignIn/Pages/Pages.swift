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
    var desk: SignInDesk { authenticator.passwordDesk }

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

    /// The path of a page.
    ///
    /// It may begin with a proxy's prefix.
    enum Place: CaseIterable {
        case signIn, account, style, script

        var path: String {
            switch self {
            case .signIn: "/signin"
            case .account: "/account"
            case .style: "/signin/style.css"
            case .script: "/signin/hand-over.js"
            }
        }

        init?(_ path: String) {
            // Shortcut for requests to the wire, which are by far the most.
            guard !path.utf8.starts(with: "/database/".utf8),
                let place = Self.allCases.first(where: { path.hasSuffix($0.path) }), !path.contains("/database/1/")
            else { return nil }
            self = place
        }
    }

    func respond(to request: APIRequest, at place: Place) async -> APIResponse {
        switch (place, request.method) {
        case (.style, .get), (.style, .head): return Self.file(PageStyle.css, "text/css")
        case (.script, .get), (.script, .head): return Self.file(HandOverScript.javaScript, "text/javascript")
        case (.signIn, .get), (.signIn, .head): return showSignIn(request)
        case (.account, .get), (.account, .head):
            let visit = Visit(request, guardian, random)
            return visit.answer(AccountPage(formSeal: visit.formSeal).door(), isSecure: isSecure)
        case (.signIn, .post): return await signIn(request)
        case (.account, .post): return await changeAccount(request)
        default: return Self.notAllowed(place)
        }
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
        guard let fields = FormFields(request.body), guardian.isOurs(request, fields, ownHosts: ownHosts(request))
        else {
            return nil
        }
        return fields
    }

    func ticket(for account: Account.ID, _ visit: Visit) throws(CredentialRefusal) -> String {
        let mark = try authenticator.passwordMark(of: account)
        return guardian.ticket(for: account, passwordMark: mark, cookie: visit.cookie, at: time.now())
    }

    func account(ofTicket ticket: String, _ visit: Visit) throws(CredentialRefusal) -> Account.ID? {
        try guardian.account(
            ofTicket: ticket,
            cookie: visit.cookie,
            at: time.now(),
            passwordMark: authenticator.passwordMark(of:)
        )
    }

    var isSecure: Bool {
        authenticator.settings.publicURL?.hasPrefix("https://") ?? authenticator.settings.endsTLS
    }

    private func ownHosts(_ request: APIRequest) -> [String] {
        let known = authenticator.settings.publicURL.flatMap { address in
            address.split(separator: "://", maxSplits: 1).last?.split(separator: "/").first.map(String.init)
        }
        return [known, request.head.reading.shown.host].compactMap { $0 }
    }

    // MARK: Answers

    private static func file(_ text: String, _ type: String) -> APIResponse {
        var response = APIResponse(status: .ok, body: Array(text.utf8))
        response.headers[.contentType] = "\(type); charset=utf-8"
        response.headers[.cacheControl] = "public, max-age=3600"
        response.headers[.xContentTypeOptions] = "nosniff"
        return response
    }

    private static func notAllowed(_ place: Place) -> APIResponse {
        var response = APIResponse(status: .methodNotAllowed, body: Array("Use this address in a browser.\n".utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        response.headers[.allow] = place == .signIn || place == .account ? "GET, HEAD, POST" : "GET, HEAD"
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
