import Records
import RelayCore

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

    func html(name: String = "", trouble: String? = nil) -> HTML {
        let alert: HTML? = trouble.map { "<div class=\"notice bad\" id=\"trouble\" role=\"alert\">\($0)</div>" }
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
    static func joined(_ facts: Facts, _ standing: ShareStanding) -> HTML {
        let text: String =
            switch standing {
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
