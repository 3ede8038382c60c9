import Foundation
import HTTPTypes
import Records
import RelayCore

/// The account page.
///
/// Opened with the password for 15 minutes; each action reloads the page, so it works without scripts.
extension Pages {
    func changeAccount(_ request: APIRequest) async -> APIResponse {
        let visit = visit(request)
        func signInForm(_ formError: SignInPage.FormError, _ status: HTTPResponse.Status, email: String = "")
            -> APIResponse
        {
            visit.answer(
                AccountPage(formSeal: visit.formSeal).signInForm(email: email, formError: formError),
                status: status,
                isSecure: isSecure
            )
        }
        guard let fields = fields(of: request) else { return signInForm(.cookies, .forbidden) }
        do throws(CredentialRefusal) {
            if fields["action"] == "open" {
                let email = fields["email"] ?? ""
                do throws(CredentialRefusal) {
                    let account = try await open(fields, email: email, from: request.remoteAddress)
                    return try show(account, visit, nil)
                } catch {
                    return refusal(error) { signInForm($0, $1, email: email) }
                }
            }
            guard let id = try self.account(ofTicket: fields["ticket"] ?? "", visit),
                let account = try authenticator.account(id)
            else { return signInForm(.cookies, .forbidden) }
            let outcome = try await carryOut(fields, account, from: request.remoteAddress)
            return try show(try authenticator.account(id) ?? account, visit, outcome)
        } catch {
            return refusal(error) { signInForm($0, $1) }
        }
    }

    private func open(
        _ fields: FormFields,
        email: String,
        from address: String
    ) async throws(CredentialRefusal) -> Account {
        let (authenticator, password) = (authenticator, fields["password"] ?? "")
        try authenticator.chargeSignIn(email: email, from: address)
        return try await passwordQueue.enqueue { () throws(CredentialRefusal) in
            try authenticator.verifiedAccount(email: email, password: password, from: address)
        }
    }

    private func show(
        _ account: Account,
        _ visit: Visit,
        _ outcome: AccountPage.Outcome?
    ) throws(CredentialRefusal) -> APIResponse {
        let page = AccountPage(formSeal: visit.formSeal).open(
            account,
            apps: try authenticator.apps(of: account.id),
            ticket: try ticket(for: account.id, visit),
            outcome: outcome
        )
        return visit.answer(page, isSecure: isSecure)
    }

    private func carryOut(
        _ fields: FormFields,
        _ account: Account,
        from address: String
    ) async throws(CredentialRefusal) -> AccountPage.Outcome {
        let authenticator = authenticator
        if fields["action"] == "password" { return try await changePassword(fields, account, from: address) }
        return try await authenticator.accountQueue.enqueue { () throws(CredentialRefusal) in
            try authenticator.carryOut(fields, account)
        }
    }

    private func changePassword(
        _ fields: FormFields,
        _ account: Account,
        from address: String
    ) async throws(CredentialRefusal) -> AccountPage.Outcome {
        guard let new = fields["new"], new == fields["again"] else {
            return .refused("The two new passwords do not match. Nothing was changed.")
        }
        guard new.count >= AccountRules.passwordLength.lowerBound, AccountRules.passwordLength.contains(new.utf8.count)
        else { return .refused("The new password is too short or too long. Nothing was changed.") }
        let (authenticator, email) = (authenticator, account.email ?? "")
        let current = fields["current"] ?? ""
        do throws(CredentialRefusal) {
            try authenticator.chargeSignIn(email: email, from: address)
            return try await passwordQueue.enqueue { () throws(CredentialRefusal) in
                _ = try authenticator.verifiedAccount(email: email, password: current, from: address)
                try authenticator.setPassword(new, of: account.id)
                return .done("Your password is changed. Every app asks you to sign in again.")
            }
        } catch {
            switch error {
            case .failed: return .refused("The current password is wrong. Nothing was changed.")
            case .throttled: return .refused(SignInPage.FormError.throttled(minutes: 1).text)
            default: throw error
            }
        }
    }
}

extension Authenticator {
    /// Performs the action of a button on the account page.
    fileprivate func carryOut(
        _ fields: FormFields,
        _ account: Account
    ) throws(CredentialRefusal) -> AccountPage.Outcome {
        switch fields["action"] {
        case "name":
            var name = account.name
            name.given = fields["given"].flatMap(PersonName.part)
            name.family = fields["family"].flatMap(PersonName.part)
            try wrapping { () throws(DirectoryError) in try directory.setName(name, of: account.id) }
            return .done("Your name is saved.")
        case "sign-out-everywhere":
            try endSessions(of: account.id, in: nil)
            return .done("You are signed out everywhere.")
        case "sign-out":
            guard let app = try app(fields, of: account) else { break }
            try endSessions(of: account.id, in: app.home)
            return .done("You are signed out of \(app.title).")
        case "support":
            guard let app = try app(fields, of: account) else { break }
            let started = try start(account, in: app.home, kind: .brief, discoverable: false)
            return .code(started.webToken, app: app.title, minutes: Int(settings.briefLifetime.inSeconds / 60))
        case "show", "hide":
            guard let app = try app(fields, of: account) else { break }
            let isDiscoverable = fields["action"] == "show"
            try wrapping { () throws(DirectoryError) in
                let user = try directory.user(of: account.id, in: app.home)
                try directory.setDiscoverable(isDiscoverable, user: user, in: app.home)
            }
            return .done(
                isDiscoverable
                    ? "Others can find you in \(app.title)." : "Others can no longer find you in \(app.title)."
            )
        default: break
        }
        return .refused("The form has no valid action. Please try again.")
    }

    /// Returns the app that a form names, if the account has used it.
    private func app(_ fields: FormFields, of account: Account) throws(CredentialRefusal) -> AccountPage.App? {
        try apps(of: account.id).first {
            $0.home.container.name == fields["container"] && $0.home.environment.rawValue == fields["environment"]
        }
    }

    fileprivate func apps(of account: Account.ID) throws(CredentialRefusal) -> [AccountPage.App] {
        let (profiles, sessions) = try wrapping { () throws(DirectoryError) in
            (try directory.profiles(of: account), try directory.sessions(of: account))
        }
        return profiles.map { home, profile in
            let here = sessions.filter { $0.home == home }
            return AccountPage.App(
                home: home,
                name: self.title(of: home.container),
                isDiscoverable: profile.isDiscoverable,
                signIns: here.count,
                lastUse: here.map { $0.used ?? $0.created }.max()
            )
        }
    }
}

/// The HTML of the account page: name, password, and the apps that use the account.
struct AccountPage {
    var formSeal: String

    /// Returns the page that asks for the password.
    func signInForm(email: String = "", formError: SignInPage.FormError? = nil) -> HTML {
        let alert: HTML? = formError.map { "<div class=\"notice bad\" id=\"trouble\" role=\"alert\">\($0.text)</div>" }
        let marks: HTML = formError == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"trouble\""
        return PageFrame.html(
            title: "Your account",
            """
            <h1>Your account</h1>
            <p class="quiet">Change your name or password, see where you are signed in, and sign out.</p>
            \(alert)
            <form method="post" action="account" accept-charset="utf-8">
            \(hidden("open"))
            <label for="email">E-mail address</label>
            <input type="text" inputmode="email" autocapitalize="none" id="email" name="email" value="\(email)" autocomplete="username" required\
             spellcheck="false" maxlength="254"\(marks)>
            <label for="password">Password</label>
            <input type="password" id="password" name="password" autocomplete="current-password" required\
             maxlength="1024"\(marks)>
            <button class="wide" type="submit">Continue</button>
            </form>
            """
        )
    }

    /// The result of an action.
    enum Outcome {
        case done(String)
        case refused(String)
        /// A code that lets an operator act as the user.
        case code(String, app: String, minutes: Int)
    }

    /// One app in the list of the account page.
    struct App {
        var home: ContainerEnvironment
        /// The container's display name.
        var name: String
        var isDiscoverable: Bool
        /// The number of active sessions.
        var signIns: Int
        /// When one of them was last used; `nil` if there are none.
        var lastUse: Timestamp?

        /// Describes the sessions; the day is in UTC because the page does not know the user's time zone.
        var use: String {
            guard let lastUse else { return "You are not signed in." }
            let day = Self.day(lastUse)
            return signIns == 1 ? "Signed in, last used on \(day)." : "Signed in \(signIns) times, last used on \(day)."
        }

        private static func day(_ timestamp: Timestamp) -> String {
            Date(timeIntervalSince1970: Double(timestamp.milliseconds) / 1000).formatted(.iso8601.year().month().day())
        }

        /// Contains the environment unless it is `production`.
        var title: String {
            home.environment == .production
                ? name : "\(name) (\(home.environment.rawValue))"
        }
    }

    func open(_ account: Account, apps: [App], ticket: String, outcome: Outcome?) -> HTML {
        PageFrame.html(
            title: "Your account",
            """
            <h1>Your account</h1>
            <p class="quiet">\(account.email ?? "")</p>
            \(outcome.map(notice))
            \(nameForm(account, ticket))
            \(passwordForm(account, ticket))
            <h2>Apps</h2>
            \(apps.isEmpty ? "<p>You have not used any app with this account.</p>" : appList(apps, ticket))
            <h2>Everywhere</h2>
            <p>Signs you out of all apps, on all devices.</p>
            \(button("Sign out everywhere", action: "sign-out-everywhere", ticket))
            """,
            foot: "This page can be used for 15 minutes. Close it when you are done."
        )
    }

    private func notice(_ outcome: Outcome) -> HTML {
        switch outcome {
        case .done(let text): "<div class=\"notice\" role=\"status\">\(text)</div>"
        case .refused(let text): "<div class=\"notice bad\" role=\"alert\">\(text)</div>"
        case .code(let code, let app, let minutes):
            """
            <div class="notice" role="status"><p>With this code, the operator who helps you can see and change your data in \
            \(app) for \(String(minutes)) minutes. Send it only to somebody you trust. To end it sooner, sign out of the app \
            below.</p><p><code id="support-code">\(code)</code></p></div>
            """
        }
    }

    private func nameForm(_ account: Account, _ ticket: String) -> HTML {
        """
        <h2>Name</h2>
        <form method="post" action="account" accept-charset="utf-8">
        \(hidden("name", ticket))
        <label for="given">Given name</label>
        <input type="text" id="given" name="given" value="\(account.name.given ?? "")" autocomplete="given-name"\
         maxlength="128">
        <label for="family">Family name</label>
        <input type="text" id="family" name="family" value="\(account.name.family ?? "")" autocomplete="family-name"\
         maxlength="128">
        <button type="submit">Save name</button>
        </form>
        """
    }

    private func passwordForm(_ account: Account, _ ticket: String) -> HTML {
        let length = AccountRules.passwordLength
        return """
            <h2>Password</h2>
            <form method="post" action="account" accept-charset="utf-8">
            \(hidden("password", ticket))<input type="text" name="username" value="\(account.email ?? "")"\
             autocomplete="username" hidden>
            <label for="current">Current password</label>
            <input type="password" id="current" name="current" autocomplete="current-password" required maxlength="1024">
            <label for="new">New password</label>
            <input type="password" id="new" name="new" autocomplete="new-password" required\
             minlength="\(String(length.lowerBound))" maxlength="1024" aria-describedby="rule">
            <p class="quiet" id="rule">At least \(String(length.lowerBound)) characters. All apps will ask you to sign in again.</p>
            <label for="again">New password again</label>
            <input type="password" id="again" name="again" autocomplete="new-password" required maxlength="1024">
            <button type="submit">Change password</button>
            </form>
            """
    }

    private func appList(_ apps: [App], _ ticket: String) -> HTML {
        let rows: [HTML] = apps.map { app in
            let found: HTML =
                app.isDiscoverable
                ? "People who know your e-mail address or number can find you and see your name."
                : "Others cannot find you."
            let signOut: HTML =
                app.signIns == 0 ? "" : button("Sign out", action: "sign-out", ticket, app.home, of: app.title)
            return """
                <li><strong>\(app.title)</strong>
                <p class="quiet">\(app.use) \(found)</p>
                \(button(
                    app.isDiscoverable ? "Stop being found" : "Let others find me",
                    action: app.isDiscoverable ? "hide" : "show", ticket, app.home, of: app.title
                ))\(button("Let support act as me", action: "support", ticket, app.home, of: app.title))\(signOut)</li>
                """
        }
        return "<ul class=\"plain\">\(rows)</ul>"
    }

    /// Returns a form with a single button.
    private func button(
        _ title: String,
        action: String,
        _ ticket: String,
        _ home: ContainerEnvironment? = nil,
        of app: String? = nil
    ) -> HTML {
        let place: HTML? = home.map {
            """
            <input type="hidden" name="container" value="\($0.container.name)"><input type="hidden" \
            name="environment" value="\($0.environment.rawValue)">
            """
        }
        // Screen readers that list buttons read the label, which contains the app's name.
        let label: HTML? = app.map { " aria-label=\"\(title): \($0)\"" }
        return """
            <form method="post" action="account">\(hidden(action, ticket))\(place)\
            <button class="second" type="submit"\(label)>\(title)</button></form>
            """
    }

    private func hidden(_ action: String, _ ticket: String? = nil) -> HTML {
        let field: HTML? = ticket.map { "<input type=\"hidden\" name=\"ticket\" value=\"\($0)\">" }
        return """
            <input type="hidden" name="action" value="\(action)"><input type="hidden" name="form" \
            value="\(formSeal)">\(field)
            """
    }
}
