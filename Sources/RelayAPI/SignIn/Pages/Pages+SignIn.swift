import HTTPTypes
import Records
import RelayCore

/// The sign-in page of an app.
///
/// See Wire.md, "Signing in".
extension Pages {
    /// The application of a sign-in link, with its API token.
    private struct Application {
        var link: SignInLink
        var home: ContainerEnvironment
        /// `nil` on a `--dev` relay if the link names no token.
        var token: APIToken?
        /// The origins of windows that may receive the token.
        var origins: [String]

        var leadsSomewhere: Bool { token?.callbackURL != nil || !origins.isEmpty }

        func page(_ visit: Visit) -> SignInPage {
            SignInPage(
                link: link,
                application: home.container.name,
                destination: token?.callbackURL.map(Callback.place),
                asksNameOnly: token == nil,
                formSeal: visit.formSeal
            )
        }

        var policySource: String? { token?.callbackURL.flatMap(Callback.policySource) }
    }

    func showSignIn(_ request: APIRequest) -> APIResponse {
        let visit = visit(request)
        guard let fields = FormFields((request.query ?? "").utf8), let application = application(fields) else {
            return visit.answer(SignInPage.broken(), status: .badRequest, isSecure: isSecure)
        }
        guard application.leadsSomewhere else {
            return visit.answer(SignInPage.leadsNowhere(), status: .badRequest, isSecure: isSecure)
        }
        return visit.answer(
            application.page(visit).html(),
            isSecure: isSecure,
            destination: application.policySource
        )
    }

    func signIn(_ request: APIRequest) async -> APIResponse {
        let visit = visit(request)
        guard let unchecked = FormFields(request.body), let application = application(unchecked),
            application.leadsSomewhere
        else { return visit.answer(SignInPage.broken(), status: .badRequest, isSecure: isSecure) }
        let name = unchecked["email"] ?? unchecked["name"] ?? ""
        func again(_ trouble: SignInPage.Trouble, _ status: HTTPResponse.Status) -> APIResponse {
            visit.answer(
                application.page(visit).html(email: name, keep: unchecked["keep"] != nil, trouble: trouble),
                status: status,
                isSecure: isSecure,
                destination: application.policySource
            )
        }
        guard let fields = fields(of: request) else { return again(.cookies, .forbidden) }
        if application.token == nil, !AccountRules.isDevName(name) { return again(.name, .forbidden) }
        do throws(CredentialRefusal) {
            let webToken = try await start(fields, application, from: request.remoteAddress)
            return arrive(application, webToken: webToken, visit)
        } catch {
            return refusal(error, again)
        }
    }

    /// Returns the response to refused credentials; `again` shows the form with a message.
    func refusal(
        _ refusal: CredentialRefusal,
        _ again: (SignInPage.Trouble, HTTPResponse.Status) -> APIResponse
    ) -> APIResponse {
        switch refusal {
        case .throttled(let wait):
            var response = again(.throttled(minutes: max(1, Int((wait.inSeconds / 60).rounded(.up)))), .tooManyRequests)
            response.headers[.retryAfter] = String(max(1, Int(wait.inSeconds.rounded(.up))))
            return response
        case .failed, .ended, .expired, .malformed, .foreignOrigin: return again(.wrong, .forbidden)
        case .unavailable: return again(.throttled(minutes: 1), .serviceUnavailable)
        }
    }

    private func start(
        _ fields: FormFields,
        _ application: Application,
        from address: String
    ) async throws(CredentialRefusal) -> String {
        let (authenticator, home) = (authenticator, application.home)
        let wantsToBeFound = fields["discoverable"] != nil
        let kind: Session.Kind = fields["keep"] != nil ? .kept : .brief
        if application.token == nil {
            let name = fields["name"] ?? ""
            return try await authenticator.writingDesk.inTurn { () throws(CredentialRefusal) in
                try authenticator.meetDevUser(name, in: home, discoverable: wantsToBeFound)
                return "dev-\(name)"
            }
        }
        let (email, password) = (fields["email"] ?? "", fields["password"] ?? "")
        try authenticator.chargeSignIn(email: email, from: address)
        return try await desk.inTurn { () throws(CredentialRefusal) in
            let account = try authenticator.checked(email: email, password: password, from: address)
            return try authenticator.start(account, in: home, kind: kind, discoverable: wantsToBeFound).webToken
        }
    }

    private func arrive(_ application: Application, webToken: String, _ visit: Visit) -> APIResponse {
        guard let callback = application.token?.callbackURL else {
            return visit.answer(
                SignInPage.handOver(webToken: webToken, origins: application.origins),
                isSecure: isSecure
            )
        }
        var response = APIResponse(status: .seeOther)
        response.headers[.location] = Callback.address(callback, webToken: webToken)
        Self.protect(&response, destination: application.policySource)
        return response
    }

    /// Returns the application of a link; `nil` alike for tokens that are unknown, revoked or of another container.
    private func application(_ fields: FormFields) -> Application? {
        guard let link = SignInLink(fields), let container = ContainerID(link.container),
            let environment = Environment(rawValue: link.environment)
        else { return nil }
        let home = ContainerEnvironment(container, environment)
        let isDev = authenticator.settings.acceptsDevTokens
        let asked = isDev && OriginRule.isLoopback(link.origin) ? [link.origin] : []
        guard !link.token.isEmpty else {
            return isDev ? Application(link: link, home: home, token: nil, origins: asked) : nil
        }
        guard let token = try? authenticator.directory.apiToken(id: link.token), token.home == home,
            token.revoked == nil, token.callbackURL.map(Callback.isUsable) ?? true
        else { return nil }
        let origins = token.allowedOrigins + asked.filter { !token.allowedOrigins.contains($0) }
        return Application(link: link, home: home, token: token, origins: origins)
    }
}
