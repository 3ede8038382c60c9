import HTTPTypes
import Records
import RelayCore
import Wire

/// The path of a share link's page: `/share/{container}/{environment}/{link}`, after a proxy's prefix.
struct SharePagePath {
    var home: ContainerEnvironment
    var link: String

    /// Creates it from the variable segments of the path.
    init?(_ segments: [String]) {
        guard let container = PercentCoding.decode(segments[0]).flatMap({ ContainerID($0) }),
            let environment = Environment(rawValue: segments[1]), let link = PercentCoding.decode(segments[2]),
            !link.isEmpty
        else { return nil }
        home = ContainerEnvironment(container, environment)
        self.link = link
    }
}

/// The page of a share link.
///
/// Anybody with the link can accept the share there or continue in the app. See Wire.md, "Shares".
extension Pages {
    func respond(to request: APIRequest, at path: SharePagePath) async -> APIResponse {
        let visit = visit(request)
        let found: FoundShare
        do throws(RelayError) {
            found = try look(at: path)
        } catch {
            let isGone = error.code == .notFound
            return visit.answer(
                SharePage.ended(),
                status: isGone ? .notFound : .serviceUnavailable,
                isSecure: isSecure
            )
        }
        if request.method == .post { return await accept(request, found, path, visit) }
        return visit.answer(page(found, path, visit).html(), isSecure: isSecure)
    }

    private func look(at path: SharePagePath) throws(RelayError) -> FoundShare {
        guard (try? authenticator.directory.hasContainer(path.home.container)) == true else { throw .shareNotFound }
        let nobody = acceptanceContext(Caller(.anonymous, deviceID: ""), contacts: [])
        return try stores.store(of: path.home).read { reader throws(RelayError) in
            try nobody.acceptance(of: path.link).look(in: reader)
        }
    }

    private func acceptanceContext(_ caller: Caller, contacts: [Share.Contact]) -> ShareAcceptanceContext {
        let random = random
        return ShareAcceptanceContext(
            caller: caller,
            contacts: contacts,
            seal: authenticator.invitations,
            now: time.now(),
            participantLimit: participantLimit,
            newID: { Base64URL.encode(random.bytes(16)) }
        )
    }

    private func page(_ found: FoundShare, _ path: SharePagePath, _ visit: Visit) -> SharePage {
        SharePage(
            facts: facts(found, path),
            address: path.link,
            asksNameOnly: authenticator.settings.acceptsDevTokens,
            formSeal: visit.formSeal
        )
    }

    private func facts(_ found: FoundShare, _ path: SharePagePath) -> SharePage.Facts {
        let titles = try? FieldsJSON.values(of: ["cloudkit.title"], in: found.record.fields)
        var title = "Shared with you"
        if case .string(let text)? = titles?["cloudkit.title"], !text.isEmpty { title = text }
        let owner = try? authenticator.profile(of: found.zone.id.owner, in: path.home)?.account.name
        let personal = authenticator.invitations.open(path.link).participant
        let meant = found.share.participants.first { $0.id == personal && !$0.hasAccepted }
        let isOpen = found.share.publicPermission != .none
        return SharePage.Facts(
            title: title,
            owner: owner.flatMap { [$0.given, $0.family].compactMap { $0 }.joined(separator: " ") }
                .flatMap { $0.isEmpty ? nil : $0 },
            permission: meant?.permission ?? (isOpen ? found.share.publicPermission : nil),
            application: authenticator.title(of: path.home.container),
            appURL: "cloudkit-\(path.home.container.name.lowercased())://share/\(path.link)"
        )
    }

    private func accept(
        _ request: APIRequest,
        _ found: FoundShare,
        _ path: SharePagePath,
        _ visit: Visit
    ) async -> APIResponse {
        let typed = FormFields(request.body)
        let name = typed?["email"] ?? typed?["name"] ?? ""
        func showForm(_ formError: String, _ status: HTTPResponse.Status) -> APIResponse {
            visit.answer(
                page(found, path, visit).html(name: name, formError: formError),
                status: status,
                isSecure: isSecure
            )
        }
        guard let fields = fields(of: request) else { return showForm(SignInPage.FormError.cookies.text, .forbidden) }
        if authenticator.settings.acceptsDevTokens, !AccountRules.isDevName(name) {
            return showForm(SignInPage.FormError.name.text, .forbidden)
        }
        let person: (user: UserID, contacts: [Share.Contact])
        do throws(CredentialRefusal) {
            person = try await self.person(fields, from: request.remoteAddress, in: path.home)
        } catch {
            return refusal(error) { showForm($0.text, $1) }
        }
        do throws(RelayError) {
            let joined = try await join(path, as: person.user, contacts: person.contacts)
            return visit.answer(SharePage.joined(facts(joined, path), joined.relation), isSecure: isSecure)
        } catch {
            let status = HTTPResponse.Status(code: error.status ?? error.code.status)
            return showForm(error.reason, error.code == .accessDenied ? .forbidden : status)
        }
    }

    /// Authenticates the person who signs in on the page.
    private func person(
        _ fields: FormFields,
        from address: String,
        in home: ContainerEnvironment
    ) async throws(CredentialRefusal) -> (user: UserID, contacts: [Share.Contact]) {
        let authenticator = authenticator
        if authenticator.settings.acceptsDevTokens {
            let name = fields["name"] ?? ""
            return try await authenticator.accountQueue.enqueue { () throws(CredentialRefusal) in
                try authenticator.ensureDevUser(name, in: home, discoverable: false)
                return try authenticator.member(
                    authenticator.wrapping { () throws(DirectoryError) in
                        try authenticator.directory.devAccount(named: name)
                    },
                    in: home
                )
            }
        }
        let (email, password) = (fields["email"] ?? "", fields["password"] ?? "")
        try authenticator.chargeSignIn(email: email, from: address)
        return try await passwordQueue.enqueue { () throws(CredentialRefusal) in
            let account = try authenticator.verifiedAccount(email: email, password: password, from: address)
            return try authenticator.member(account, in: home)
        }
    }

    private func join(
        _ path: SharePagePath,
        as user: UserID,
        contacts: [Share.Contact]
    ) async throws(RelayError) -> FoundShare {
        let visit = acceptanceContext(Caller(.user(user), deviceID: ""), contacts: contacts)
        let acceptance = visit.acceptance(of: path.link)
        let store = try stores.store(of: path.home)
        let found = try store.read { reader throws(RelayError) in try acceptance.look(in: reader) }
        guard found.relation != .notInvited else { throw .notInvited(found.share) }
        let provision = ProvisionUser(user, contacts: contacts, now: time.now())
        try await store.write(provision.remainingWrites(in: store).writes)
        let (owner, prefetch) = (found.zone.id.owner, acceptance.prefetch(of: found))
        let joined = try await store.write(touching: owner, prefetch: prefetch) { writer throws(RelayError) in
            try acceptance.run(in: writer)
        }
        guard joined.relation != .notInvited else { throw .notInvited(joined.share) }
        return joined
    }
}

extension Authenticator {
    /// Returns the account's user in a container and its verified addresses.
    fileprivate func member(
        _ account: Account,
        in home: ContainerEnvironment
    ) throws(CredentialRefusal) -> (user: UserID, contacts: [Share.Contact]) {
        let user = try wrapping { () throws(DirectoryError) in try directory.user(of: account.id, in: home) }
        return (user, [account.email.map { .email($0) }, account.phone.map { .phone($0) }].compactMap { $0 })
    }
}

/// The HTML page of a share link: what is shared, by whom, with which permission, and the sign-in form.
struct SharePage {
    /// What the page shows of the share.
    struct Facts {
        var title: String
        /// `nil` if the owner has not entered a name.
        var owner: String?
        /// The permission that the link grants; `nil` if only invited people can join, with individual permissions.
        var permission: Share.Permission?
        var application: String
        /// Opens the link in the app.
        var appURL: String
    }

    var facts: Facts
    /// The action of the form: the address of the page itself.
    var address: String
    /// Whether the relay runs with `--dev`, where any name is accepted.
    var asksNameOnly: Bool
    var formSeal: String

    /// The relative path from `/share/{container}/{environment}/` to the root.
    private static let up = "../../../"

    func html(name: String = "", formError: String? = nil) -> HTML {
        let alert: HTML? = formError.map { "<div class=\"notice bad\" id=\"trouble\" role=\"alert\">\($0)</div>" }
        return PageFrame.html(
            title: facts.title,
            """
            <h1>\(facts.title)</h1>
            <p><strong>\(facts.owner ?? "Somebody")</strong> shares this with you in <strong>\(facts.application)</strong>.</p>
            <p id="permission">\(permissionText)</p>
            \(alert)
            <form method="post" action="\(address)" accept-charset="utf-8">
            <input type="hidden" name="form" value="\(formSeal)">
            \(asksNameOnly ? nameField(name) : passwordFields(name))
            <button class="wide" type="submit">Sign in and accept</button>
            </form>
            """,
            foot: "<a href=\"\(facts.appURL)\">Open it in the app instead</a>",
            up: Self.up
        )
    }

    private var permissionText: String {
        switch facts.permission {
        case .readOnly?: "You can view it, but not change it."
        case .readWrite?: "You can view and change it."
        default: "Only invited people can join, each with their own permission."
        }
    }

    private func passwordFields(_ email: String) -> HTML {
        """
        <label for="email">E-mail address</label>
        <input type="text" inputmode="email" autocapitalize="none" id="email" name="email" value="\(email)" autocomplete="username" required\
         spellcheck="false" maxlength="254">
        <label for="password">Password</label>
        <input type="password" id="password" name="password" autocomplete="current-password" required\
         maxlength="1024">
        """
    }

    private func nameField(_ name: String) -> HTML {
        """
        <p class="notice">This relay runs with --dev: any name signs you in, without a password.</p>
        <label for="name">Name</label>
        <input type="text" id="name" name="name" value="\(name)" autocomplete="off" required spellcheck="false"\
         maxlength="64">
        """
    }

    /// Returns the page after joining.
    static func joined(_ facts: Facts, _ relation: ShareRelation) -> HTML {
        let text: String =
            switch relation {
            case .owner: "You are the owner; it is already in your app."
            case .participant(let participant) where participant.permission == .readOnly:
                "You have joined and can view it. It appears in your app within moments."
            default: "You have joined and can view and change it. It appears in your app within moments."
            }
        return PageFrame.html(
            title: facts.title,
            """
            <h1>\(facts.title)</h1>
            <div class="notice" id="joined" role="status">\(text)</div>
            <p><a class="button" href="\(facts.appURL)">Open the app</a></p>
            """,
            up: up
        )
    }

    /// Returns the page for a link that is unknown, expired, or of a container that does not exist; the same for all.
    static func ended() -> HTML {
        PageFrame.html(
            title: "This link is not valid",
            """
            <h1>This link is not valid</h1>
            <p>It may be mistyped, or the owner may have stopped sharing. Ask the owner for a new link.</p>
            """,
            up: up
        )
    }
}
