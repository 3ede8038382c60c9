import Foundation
import Records
import RelayCore

/// The HTML of the account page: name, password, and the apps that use the account.
struct AccountPage {
    var formSeal: String

    /// Returns the page that asks for the password.
    func door(email: String = "", trouble: SignInPage.Trouble? = nil) -> HTML {
        let alert: HTML? = trouble.map { "<div class=\"notice bad\" id=\"trouble\" role=\"alert\">\($0.text)</div>" }
        let marks: HTML = trouble == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"trouble\""
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
    }

    /// One app in the list of the account page.
    struct App {
        var home: ContainerEnvironment
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

        private static func day(_ moment: Timestamp) -> String {
            Date(timeIntervalSince1970: Double(moment.milliseconds) / 1000).formatted(.iso8601.year().month().day())
        }

        /// Contains the environment unless it is `production`.
        var title: String {
            home.environment == .production
                ? home.container.name : "\(home.container.name) (\(home.environment.rawValue))"
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
                ))\(signOut)</li>
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
