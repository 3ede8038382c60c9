import HTTPTypes
import Records
import RelayCore

/// The account page.
///
/// Opened with the password for 15 minutes; each action reloads the page, so it works without scripts.
extension Pages {
    func changeAccount(_ request: APIRequest) async -> APIResponse {
        let visit = visit(request)
        func door(_ trouble: SignInPage.Trouble, _ status: HTTPResponse.Status, email: String = "") -> APIResponse {
            visit.answer(
                AccountPage(formSeal: visit.formSeal).door(email: email, trouble: trouble),
                status: status,
                isSecure: isSecure
            )
        }
        guard let fields = fields(of: request) else { return door(.cookies, .forbidden) }
        do throws(CredentialRefusal) {
            if fields["action"] == "open" {
                let email = fields["email"] ?? ""
                do throws(CredentialRefusal) {
                    let account = try await open(fields, email: email, from: request.remoteAddress)
                    return try show(account, visit, nil)
                } catch {
                    return refusal(error) { door($0, $1, email: email) }
                }
            }
            guard let id = try self.account(ofTicket: fields["ticket"] ?? "", visit),
                let account = try authenticator.account(id)
            else { return door(.cookies, .forbidden) }
            let outcome = try await carryOut(fields, account, from: request.remoteAddress)
            return try show(try authenticator.account(id) ?? account, visit, outcome)
        } catch {
            return refusal(error) { door($0, $1) }
        }
    }

    private func open(
        _ fields: FormFields,
        email: String,
        from address: String
    ) async throws(CredentialRefusal) -> Account {
        let (authenticator, password) = (authenticator, fields["password"] ?? "")
        try authenticator.chargeSignIn(email: email, from: address)
        return try await desk.inTurn { () throws(CredentialRefusal) in
            try authenticator.checked(email: email, password: password, from: address)
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
        return try await authenticator.writingDesk.inTurn { () throws(CredentialRefusal) in
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
            return try await desk.inTurn { () throws(CredentialRefusal) in
                _ = try authenticator.checked(email: email, password: current, from: address)
                try authenticator.setPassword(new, of: account.id)
                return .done("Your password is changed. Every app asks you to sign in again.")
            }
        } catch {
            switch error {
            case .failed: return .refused("The current password is wrong. Nothing was changed.")
            case .throttled: return .refused(SignInPage.Trouble.throttled(minutes: 1).text)
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
                isDiscoverable: profile.isDiscoverable,
                signIns: here.count,
                lastUse: here.map { $0.used ?? $0.created }.max()
            )
        }
    }
}
