import RelayCore

/// The HTML of signing in to an application.
struct SignInPage {
    /// As it stands in the form: what the application's address said.
    var link: SignInLink
    /// The container's name, for the person.
    var application: String
    /// Where the browser will go; `nil` where the window that asked gets the sign-in.
    var destination: String?
    /// `--dev` without an API token: any name will do.
    var asksNameOnly: Bool
    var formSeal: String

    /// What went wrong with the attempt before.
    enum Trouble {
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
                "The page was open for too long, or your browser keeps no cookies for it. Please try once more."
            case .name: "A name here has 1 to 64 letters, digits, dots, dashes or underscores."
            }
        }
    }

    func html(email: String = "", keep: Bool = false, trouble: Trouble? = nil) -> HTML {
        let goesTo: HTML? = destination.map { "<p class=\"quiet\">Afterwards you go to <strong>\($0)</strong>.</p>" }
        let alert: HTML? = trouble.map {
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
            \(asksNameOnly ? nameField(email, trouble) : passwordFields(email, trouble))
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

    private func passwordFields(_ email: String, _ trouble: Trouble?) -> HTML {
        let marks: HTML = trouble == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"trouble\""
        return """
            <label for="email">E-mail address</label>
            <input type="email" id="email" name="email" value="\(email)" autocomplete="username" required\
             spellcheck="false" maxlength="254"\(marks)\(email.isEmpty ? " autofocus" : "" as HTML)>
            <label for="password">Password</label>
            <input type="password" id="password" name="password" autocomplete="current-password" required\
             maxlength="1024"\(marks)\(email.isEmpty ? "" : " autofocus" as HTML)>
            """
    }

    private func nameField(_ name: String, _ trouble: Trouble?) -> HTML {
        let marks: HTML = trouble == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"trouble\""
        return """
            <p class="notice">This relay runs with --dev: any name is a user, and no password is asked.</p>
            <label for="name">Name</label>
            <input type="text" id="name" name="name" value="\(name)" autocomplete="off" required spellcheck="false"\
             maxlength="64"\(marks) autofocus>
            """
    }

    /// The last page where no callback is called: a script hands the token to the window that asked.
    static func handOver(webToken: String, origins: [String]) -> HTML {
        PageFrame.html(
            title: "Signed in",
            """
            <div id="hand-over" data-token="\(webToken)" data-origins="\(origins.joined(separator: " "))">
            <h1>Signed in</h1>
            <p id="status" role="status">Handing the sign-in to the app …</p>
            <noscript><p class="notice bad">Your browser runs no scripts, and this app has no address to go back to. \
            Allow scripts for this page, or ask the app's makers to give its API token a callback address.</p></noscript>
            </div>
            """,
            script: "signin/hand-over.js"
        )
    }

    /// Nothing can be done with this link.
    ///
    /// The same for a container, token or environment that is not there and for one that is but does not fit.
    static func broken() -> HTML {
        PageFrame.html(
            title: "This link cannot be used",
            """
            <h1>This link cannot be used</h1>
            <p>It is incomplete, or the app may no longer use this relay. Go back to the app and sign in from there; \
            if that does not help, tell the people who make the app.</p>
            """
        )
    }

    /// The API token has neither a callback nor an origin, so the sign-in could reach nobody.
    static func leadsNowhere() -> HTML {
        PageFrame.html(
            title: "This app cannot be signed in to",
            """
            <h1>This app cannot be signed in to yet</h1>
            <p>Its API token names no place that the sign-in could go to. The operator of this relay makes one that \
            does with <code>zonecast token create --callback-url URL</code>, or \
            <code>--allowed-origin ORIGIN</code> for a page that opens this one.</p>
            """
        )
    }
}

/// What a sign-in address says, in its query and again in the form.
struct SignInLink: Equatable {
    var container: String
    var environment: String
    /// The API token's public identifier; empty: none.
    var token: String
    /// The page that asked, on a `--dev` relay; empty: not said.
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

/// What all pages share.
enum PageFrame {
    /// A whole page around `main`, which holds its one `h1`; `script` is the relative address of a script of ours.
    ///
    /// `up` leads from the page's own folder to the relay's top.
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
