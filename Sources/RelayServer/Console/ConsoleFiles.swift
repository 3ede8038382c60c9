/// The files of the console, by their path after `/console/`.
///
/// They are string literals in the files next to this one, so that the program is a single file and nothing has to be
/// generated.
enum ConsoleFiles {
    struct File: Sendable {
        var text: String
        var type: String

        static func script(_ text: String) -> File { File(text: text, type: "text/javascript") }
    }

    static func file(_ name: String) -> File? { files[name] }

    private static let files: [String: File] = [
        "api.js": .script(apiScript),
        "assets.js": .script(assetsScript),
        "audit.js": .script(auditScript),
        "backups.js": .script(backupsScript),
        "changes.js": .script(changesScript),
        "charts.js": .script(chartsScript),
        "configuration.js": .script(configurationScript),
        "console.css": File(text: style, type: "text/css"),
        "devices.js": .script(devicesScript),
        "dom.js": .script(domScript),
        "editor.js": .script(editorScript),
        "explorer.js": .script(explorerScript),
        "fieldtext.js": .script(fieldTextScript),
        "format.js": .script(formatScript),
        "": File(text: page, type: "text/html"),
        "indexes.js": .script(indexesScript),
        "json.js": .script(DemoPages.exactJSONModule),
        "logs.js": .script(logsScript),
        "main.js": .script(mainScript),
        "overview.js": .script(overviewScript),
        "passkeys.js": .script(passkeysScript),
        "promote.js": .script(promoteScript),
        "push.js": .script(pushScript),
        "query.js": .script(queryScript),
        "quotas.js": .script(quotasScript),
        "records.js": .script(recordsScript),
        "roles.js": .script(rolesScript),
        "schema.js": .script(schemaScript),
        "sections.js": .script(sectionsScript),
        "shares.js": .script(sharesScript),
        "shell.js": .script(shellScript),
        "signin.js": .script(signinScript),
        "telemetry.js": .script(telemetryScript),
        "tokens.js": .script(tokensScript),
        "users.js": .script(usersScript),
        "zones.js": .script(zonesScript),
    ]
}
