import Records
import RelayCore

/// The HTML of a share's link: what is shared, by whom, what one may do, and the way in.
struct SharePage {
    /// What the page knows of the share.
    struct Facts {
        var title: String
        /// `nil` where the owner has told the relay no name.
        var owner: String?
        /// What whoever comes in by this link may do; `nil`: only those invited come in, each with a right of their own.
        var permission: Share.Permission?
        var application: String
        /// Hands the link over to the app.
        var appURL: String
    }

    var facts: Facts
    /// The form's address: the page's own.
    var address: String
    /// A relay with `--dev`: any name will do.
    var asksNameOnly: Bool
    var formSeal: String

    /// From `/share/{container}/{environment}/` to the top.
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
        case .readOnly?: "You may look at it; changes stay with its owner."
        case .readWrite?: "You may look at it and change it."
        default: "It is for the people who were invited, each with the rights they were given."
        }
    }

    private func passwordFields(_ email: String) -> HTML {
        """
        <label for="email">E-mail address</label>
        <input type="email" id="email" name="email" value="\(email)" autocomplete="username" required\
         spellcheck="false" maxlength="254">
        <label for="password">Password</label>
        <input type="password" id="password" name="password" autocomplete="current-password" required\
         maxlength="1024">
        """
    }

    private func nameField(_ name: String) -> HTML {
        """
        <p class="notice">This relay runs with --dev: any name is a user, and no password is asked.</p>
        <label for="name">Name</label>
        <input type="text" id="name" name="name" value="\(name)" autocomplete="off" required spellcheck="false"\
         maxlength="64">
        """
    }

    /// After joining.
    static func joined(_ facts: Facts, _ standing: ShareStanding) -> HTML {
        let text: String =
            switch standing {
            case .owner: "This is your own; you have it in your app already."
            case .participant(let participant) where participant.permission == .readOnly:
                "You have joined, and may look at it. It is in your app within moments."
            default: "You have joined, and may look at it and change it. It is in your app within moments."
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

    /// The same for a link that never was, one that has ended, and one of a container that is not there.
    static func ended() -> HTML {
        PageFrame.html(
            title: "This link leads nowhere",
            """
            <h1>This link leads nowhere</h1>
            <p>It may have been mistyped, or its owner no longer shares what was behind it. Ask them for a new one.</p>
            """,
            up: up
        )
    }
}
