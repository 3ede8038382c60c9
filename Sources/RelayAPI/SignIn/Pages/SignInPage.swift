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
        var title: String
        /// `nil` on a `--dev` relay if the link names no token.
        var token: APIToken?
        /// The origins of windows that may receive the token.
        var origins: [String]

        var hasDestination: Bool { token?.callbackURL != nil || !origins.isEmpty }

        func page(_ visit: Visit) -> SignInPage {
            SignInPage(
                link: link,
                application: title,
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
            return visit.answer(SignInPage.invalidLink(), status: .badRequest, isSecure: isSecure)
        }
        guard application.hasDestination else {
            return visit.answer(SignInPage.missingDestination(), status: .badRequest, isSecure: isSecure)
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
            application.hasDestination
        else { return visit.answer(SignInPage.invalidLink(), status: .badRequest, isSecure: isSecure) }
        let name = unchecked["email"] ?? unchecked["name"] ?? ""
        func showForm(_ formError: SignInPage.FormError, _ status: HTTPResponse.Status) -> APIResponse {
            visit.answer(
                application.page(visit).html(email: name, keep: unchecked["keep"] != nil, formError: formError),
                status: status,
                isSecure: isSecure,
                destination: application.policySource
            )
        }
        guard let fields = fields(of: request) else { return showForm(.cookies, .forbidden) }
        if application.token == nil, !AccountRules.isDevName(name) { return showForm(.name, .forbidden) }
        do throws(CredentialRefusal) {
            let webToken = try await start(fields, application, from: request.remoteAddress)
            return completeSignIn(application, webToken: webToken, visit)
        } catch {
            return refusal(error, showForm)
        }
    }

    /// Returns the response to refused credentials; `showForm` shows the form with a message.
    func refusal(
        _ refusal: CredentialRefusal,
        _ showForm: (SignInPage.FormError, HTTPResponse.Status) -> APIResponse
    ) -> APIResponse {
        switch refusal {
        case .throttled(let wait):
            var response = showForm(
                .throttled(minutes: max(1, Int((wait.inSeconds / 60).rounded(.up)))),
                .tooManyRequests
            )
            response.headers[.retryAfter] = String(max(1, Int(wait.inSeconds.rounded(.up))))
            return response
        case .failed, .ended, .expired, .malformed, .foreignOrigin: return showForm(.wrong, .forbidden)
        case .unavailable: return showForm(.throttled(minutes: 1), .serviceUnavailable)
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
            return try await authenticator.accountQueue.enqueue { () throws(CredentialRefusal) in
                try authenticator.ensureDevUser(name, in: home, discoverable: wantsToBeFound)
                return "dev-\(name)"
            }
        }
        let (email, password) = (fields["email"] ?? "", fields["password"] ?? "")
        try authenticator.chargeSignIn(email: email, from: address)
        return try await passwordQueue.enqueue { () throws(CredentialRefusal) in
            let account = try authenticator.verifiedAccount(email: email, password: password, from: address)
            return try authenticator.start(account, in: home, kind: kind, discoverable: wantsToBeFound).webToken
        }
    }

    private func completeSignIn(_ application: Application, webToken: String, _ visit: Visit) -> APIResponse {
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
        let title = authenticator.title(of: container)
        let isDev = authenticator.settings.acceptsDevTokens
        let requested = isDev && OriginRule.isLoopback(link.origin) ? [link.origin] : []
        guard !link.token.isEmpty else {
            return isDev ? Application(link: link, home: home, title: title, token: nil, origins: requested) : nil
        }
        guard let token = try? authenticator.directory.apiToken(id: link.token), token.home == home,
            token.revoked == nil, token.callbackURL.map(Callback.isUsable) ?? true
        else { return nil }
        let origins = token.allowedOrigins + requested.filter { !token.allowedOrigins.contains($0) }
        return Application(link: link, home: home, title: title, token: token, origins: origins)
    }
}

/// The HTML of the sign-in page of an app.
struct SignInPage {
    /// The parameters of the sign-in URL, repeated in the form.
    var link: SignInLink
    /// The container's display name.
    var application: String
    /// The destination after sign-in; `nil` if the window that opened the page gets the token.
    var destination: String?
    /// Whether only a name is required: on a `--dev` relay without an API token.
    var asksNameOnly: Bool
    var formSeal: String

    /// The error of the previous attempt.
    enum FormError {
        case wrong
        case throttled(minutes: Int)
        case cookies
        case name

        var text: String {
            switch self {
            case .wrong: "E-mail address and password do not match. Check both and try again."
            case .throttled(let minutes):
                "Too many attempts. Wait \(minutes == 1 ? "a minute" : "\(minutes) minutes"), then try again."
            case .cookies:
                "The page was open for too long, or your browser blocks its cookies. Please try again."
            case .name: "A name must have 1 to 64 letters, digits, dots, dashes or underscores."
            }
        }
    }

    func html(email: String = "", keep: Bool = false, formError: FormError? = nil) -> HTML {
        let goesTo: HTML? = destination.map { "<p class=\"quiet\">You will continue to <strong>\($0)</strong>.</p>" }
        let alert: HTML? = formError.map {
            "<div class=\"notice bad\" id=\"trouble\" role=\"alert\">\($0.text)</div>"
        }
        return PageFrame.html(
            title: "Sign in",
            """
            <h1>Sign in</h1>
            <p class="quiet">to use <strong>\(application)</strong></p>
            \(goesTo)\(alert)
            <form method="post" action="signin" accept-charset="utf-8">
            \(link.hiddenFields)<input type="hidden" name="form" value="\(formSeal)">
            \(asksNameOnly ? nameField(email, formError) : passwordFields(email, formError))
            <label class="choice"><input type="checkbox" name="keep" value="yes"\(keep ? " checked" : "")>
            <span>Keep me signed in<br><span class="quiet">For two weeks after each use. Not on a computer you share.</span></span></label>
            <label class="choice"><input type="checkbox" name="discoverable" value="yes">
            <span>Let others find me in this app<br><span class="quiet">People who know my e-mail address or number see my name.</span></span></label>
            <button class="wide" type="submit">Sign in</button>
            </form>
            """,
            foot: asksNameOnly ? nil : "<a href=\"account\">Your account: name, password, sign-out</a>"
        )
    }

    private func passwordFields(_ email: String, _ formError: FormError?) -> HTML {
        let marks: HTML = formError == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"trouble\""
        return """
            <label for="email">E-mail address</label>
            <input type="text" inputmode="email" autocapitalize="none" id="email" name="email" value="\(email)" autocomplete="username" required\
             spellcheck="false" maxlength="254"\(marks)\(email.isEmpty ? " autofocus" : "" as HTML)>
            <label for="password">Password</label>
            <input type="password" id="password" name="password" autocomplete="current-password" required\
             maxlength="1024"\(marks)\(email.isEmpty ? "" : " autofocus" as HTML)>
            """
    }

    private func nameField(_ name: String, _ formError: FormError?) -> HTML {
        let marks: HTML = formError == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"trouble\""
        return """
            <p class="notice">This relay runs with --dev: any name signs you in, without a password.</p>
            <label for="name">Name</label>
            <input type="text" id="name" name="name" value="\(name)" autocomplete="off" required spellcheck="false"\
             maxlength="64"\(marks) autofocus>
            """
    }

    /// Returns the last page if there is no callback URL; a script passes the token to the opener.
    static func handOver(webToken: String, origins: [String]) -> HTML {
        PageFrame.html(
            title: "Signed in",
            """
            <div id="hand-over" data-token="\(webToken)" data-origins="\(origins.joined(separator: " "))">
            <h1>Signed in</h1>
            <p id="status" role="status">Passing the sign-in to the app …</p>
            <noscript><p class="notice bad">Your browser does not run scripts, and this app has no callback address. \
            Allow scripts for this page, or ask the developers of the app to add a callback address to its API token.</p></noscript>
            </div>
            """,
            script: "signin/hand-over.js"
        )
    }

    /// Returns the page for an invalid link.
    ///
    /// The same for a container, token or environment that does not exist and for one that does not match.
    static func invalidLink() -> HTML {
        PageFrame.html(
            title: "This link cannot be used",
            """
            <h1>This link cannot be used</h1>
            <p>It is incomplete, or the app may no longer use this relay. Go back to the app and sign in from there; \
            if that does not help, contact the developers of the app.</p>
            """
        )
    }

    /// Returns the page for an API token with neither a callback URL nor an allowed origin.
    static func missingDestination() -> HTML {
        PageFrame.html(
            title: "Sign-in is not set up",
            """
            <h1>Sign-in is not set up for this app</h1>
            <p>The developers of the app have not yet said where you continue after signing in. Please tell them: the \
            app's API token needs a callback address or an allowed origin.</p>
            """
        )
    }
}

/// The parameters of a sign-in URL, in its query and again in the form.
struct SignInLink: Equatable {
    var container: String
    var environment: String
    /// The API token's public identifier; empty if there is none.
    var token: String
    /// The origin of the requesting page, on a `--dev` relay; empty if unknown.
    var origin: String

    init?(_ fields: FormFields) {
        guard let container = fields["container"] else { return nil }
        self.container = container
        environment = fields["environment"] ?? "development"
        token = fields["token"] ?? ""
        origin = fields["origin"] ?? ""
    }

    var hiddenFields: HTML {
        """
        <input type="hidden" name="container" value="\(container)"><input type="hidden" name="environment" \
        value="\(environment)"><input type="hidden" name="token" value="\(token)"><input type="hidden" \
        name="origin" value="\(origin)">
        """
    }
}

/// The common frame of all pages.
enum PageFrame {
    /// Returns a complete page around `main`, which must contain its only `h1`; `script` is the relative URL of a
    /// script.
    ///
    /// `up` is the relative path from the page's folder to the relay's root.
    static func html(
        title: String,
        _ main: HTML,
        foot: HTML? = nil,
        script: String? = nil,
        up: String = ""
    ) -> HTML {
        let scriptTag: HTML? = script.map { "<script src=\"\($0)\" defer></script>" }
        let footer: HTML? = foot.map { "<footer><p class=\"quiet\">\($0)</p></footer>" }
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="robots" content="noindex">
            <title>\(title)</title>
            <link rel="icon" href="data:,">
            <link rel="stylesheet" href="\(up)signin/style.css">
            \(scriptTag)
            </head>
            <body>
            <main>
            \(main)
            </main>
            \(footer)
            </body>
            </html>

            """
    }
}
