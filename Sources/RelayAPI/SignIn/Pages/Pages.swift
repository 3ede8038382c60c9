import HTTPTypes
import Records
import RelayCore

/// The relay's own pages for people: `/signin`, `/account` and what they are made of.
///
/// They work without scripts, hold nothing of other origins, and keep no session of their own.
struct Pages: Sendable {
    let authenticator: Authenticator
    let stores: any StoreCatalog
    let random: RandomSource
    let time: TimeSource
    /// People in one share.
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

    /// One of our addresses.
    ///
    /// A proxy's prefix may stand before it.
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
            // Most requests by far are of the wire, and none of them is a page.
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

    /// A browser at one of the pages: its cookie, old or just made.
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

        /// The page as an answer, with the cookie if it is new, which with `isSecure` is for https alone.
        ///
        /// `destination`: where a form of the page may lead besides here, as a policy names it.
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

    /// The form's fields, if it is one of ours.
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

    /// What keeps a page to itself: nothing foreign in it, no frame around it, no copy kept, its address told to nobody.
    ///
    /// `same-origin` and not `no-referrer`, for with the latter browsers send `Origin: null` with our own forms.
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
