import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem

/// `zonecast init`: creates everything a relay needs before its first start.
struct InitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Set up a relay: keys, a first container, a first admin, configuration, service and proxy files.",
        discussion: """
            Can be repeated at any time: existing files and data stay unchanged. Keys missing from the configuration are appended.
            Prompts for missing inputs, unless --yes is set; then only the given ones are used.
            """
    )

    @Option(
        help: ArgumentHelp("The relay's domain name for clients, such as sync.example.org.", valueName: "name")
    )
    var domain: String?

    @Option(
        name: .container,
        help: ArgumentHelp("The first container. (default: derived from the domain)", valueName: "id")
    )
    var container: ContainerID?

    @Option(
        help: ArgumentHelp(
            "E-mail address of the first admin, who gets an account for apps and access to the console.",
            valueName: "email"
        )
    )
    var admin: String?

    @Flag(help: "Read the admin's password from the first line of standard input.")
    var passwordStdin = false

    @Option(
        help: ArgumentHelp(
            "The folder for the files. (default: /etc/zonecast if it exists, else ./zonecast-setup)",
            valueName: "dir"
        ),
        completion: .directory
    )
    var files: String?

    @Option(help: ArgumentHelp("The port on this machine that the relay listens on.", valueName: "port"))
    var port = 8080

    @Flag(help: "Create an API token for production, with which the app calls the relay, and show it once.")
    var token = false

    @Flag(help: "Do not prompt.")
    var yes = false

    @OptionGroup var folder: FolderOptions

    func validate() throws {
        if let domain, !Self.isName(domain) {
            throw ValidationError(
                "--domain takes only a name, such as sync.example.org: without https:// and port, and with letters other than a to z "
                    + "in their xn--… form."
            )
        }
        guard (1...65_535).contains(port) else { throw ValidationError("--port is from 1 to 65535.") }
        try Self.checkAdmin(admin)
        if passwordStdin, admin == nil { throw ValidationError("--password-stdin requires --admin.") }
    }

    func run() async throws {
        var answers = InitAnswers(domain: domain, container: container, admin: admin, wantsToken: token)
        if !yes, isatty(STDIN_FILENO) == 1 { try answers.ask() }
        try Self.checkAdmin(answers.admin)
        guard let container = answers.container ?? answers.domain.flatMap(InitAnswers.container) else {
            throw CommandFailure(.usage, "Name the first container: zonecast init --container iCloud.org.example.notes")
        }
        var report = InitReport(asJSON: folder.json)
        let place =
            files ?? (FileManager.default.fileExists(atPath: "/etc/zonecast") ? "/etc/zonecast" : "./zonecast-setup")
        let data = Self.absolute(folder.data ?? standardData(place))
        // The files first, which only root may write; then the data, as the folder's owner.
        if let domain = answers.domain {
            try await writeFiles(domain, answers, in: Self.absolute(place), data: data, &report)
        }
        FolderOwner.become(ownerOf: data)
        let hasToken = try fill(data, container, answers, &report)
        let steps = next(answers, data: data, place: Self.absolute(place))
        try report.end(next: steps + app(container, answers, hasToken: hasToken, data: data))
    }

    /// Checked before anything is written, so that an error does not leave half of the set-up.
    static func checkAdmin(_ address: String?) throws {
        guard let address, let objection = EmailAddress.objection(to: address) else { return }
        throw ValidationError(objection)
    }

    /// Returns the package's data folder if the package's files are used.
    private func standardData(_ place: String) -> String {
        place == "/etc/zonecast" && ProcessInfo.processInfo.environment["ZONECAST_DATA"] == nil
            ? "/var/lib/zonecast" : folder.folder
    }

    // MARK: Files

    private func writeFiles(
        _ domain: String,
        _ answers: InitAnswers,
        in place: String,
        data: String,
        _ report: inout InitReport
    ) async throws {
        var files = SetupFiles(
            domain: domain,
            port: port,
            data: data,
            program: Self.program,
            configuration: "\(place)/zonecast.yaml"
        )
        files.hasConsole = answers.admin != nil
        files.store = DataFolder.database?.description
        var configuration = try ConfigurationText.complete(files.configuration, with: files.settings)
        let staying = await files.differingSettings()
        if !staying.isEmpty {
            let verb = staying.count == 1 ? "stays" : "stay"
            configuration.detail += ", where \(staying.joined(separator: " and ")) \(verb). Change that there."
        }
        report.note(configuration)
        for (name, text) in [("Caddyfile", files.caddy), ("nginx.conf", files.nginx), ("haproxy.cfg", files.haproxy)] {
            try report.note(NewFile.write(text, to: "\(place)/proxy/\(name)", what: "proxy file"))
        }
        guard !FileManager.default.fileExists(atPath: "/usr/lib/systemd/system/zonecast.service") else { return }
        try report.note(NewFile.write(files.unit, to: "\(place)/zonecast.service", what: "service file"))
    }

    private static var program: String {
        URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().path
    }

    // MARK: Data

    /// Returns whether the app has a token for production.
    private func fill(
        _ data: String,
        _ container: ContainerID,
        _ answers: InitAnswers,
        _ report: inout InitReport
    ) throws -> Bool {
        do {
            let isNew = !DataFolder.hasData(in: data)
            try DataFolder.requireMatch(data)
            let accounts = try DataFolder.home(data, creates: true).accounts()
            let place = DataFolder.database?.description ?? "\(data)/relay.sqlite, readable only by its owner"
            report.note(InitStep("relay's own key", place, isNew: isNew))
            let isThere = try accounts.hasContainer(container)
            if !isThere { try accounts.addContainer(container) }
            report.note(InitStep("container \(container)", "development and production", isNew: !isThere))
            if let admin = answers.admin { for step in try addAdmin(admin, accounts) { report.note(step) } }
            let home = ContainerEnvironment(container, .production)
            let hasToken = try accounts.apiTokens().contains { $0.home == home && $0.revoked == nil }
            guard answers.wantsToken else { return hasToken }
            let text =
                try hasToken
                ? ""
                : accounts.addAPIToken(in: home, name: "app", notes: "", callbackURL: nil, allowedOrigins: []).text
            report.note(InitStep("API token for production", text, isNew: !hasToken))
            return true
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: data)
        }
    }

    /// Creates an account for apps and, if a password is given, a console operator with the same password.
    private func addAdmin(_ email: String, _ accounts: any AccountDirectory) throws -> [InitStep] {
        let password = passwordStdin ? try Terminal.readPasswordLine() : nil
        let isNew = try accounts.account(email: email) == nil
        if isNew {
            // Without a password, a random one prevents sign-in until one is set.
            let text = password ?? Data(RandomBytes.make(32)).base64EncodedString()
            _ = try accounts.addAccount(email: email, password: text)
        }
        let detail = isNew && password == nil ? "has no password yet" : ""
        let account = InitStep("account \(email)", detail, isNew: isNew)
        let isOperator = try accounts.operators().contains { $0.name == Operator.canonicalName(email) }
        guard let password, !isOperator else {
            return isOperator ? [account, InitStep("operator \(email)", "", isNew: false)] : [account]
        }
        _ = try accounts.useOperatorLink(try accounts.makeOperatorLink(), name: email, password: password)
        return [account, InitStep("operator \(email)", "of the console, with the same password", isNew: true)]
    }

    private func next(_ answers: InitAnswers, data: String, place: String) -> [String] {
        var steps: [String] = []
        let isPackage = place == "/etc/zonecast"
        let start = isPackage ? "sudo " : ""
        if let admin = answers.admin, !passwordStdin {
            steps.append("\(start)zonecast user password \(admin) --data \(data.shellWord)")
            if let domain = answers.domain {
                steps.append("\(start)zonecast user operator create --url https://\(domain) --data \(data.shellWord)")
            }
        }
        if isPackage {
            steps.append("sudo systemctl enable --now zonecast && sudo zonecast doctor")
        } else if answers.domain != nil {
            steps.append("zonecast serve --config \("\(place)/zonecast.yaml".shellWord)")
        } else {
            steps.append("zonecast serve --data \(data.shellWord)")
        }
        return steps
    }

    /// Returns the last steps: a token for the app, and a user who is signed in.
    ///
    /// In development, where the app's first record creates its record type; a token of `--token` is for production.
    private func app(_ container: ContainerID, _ answers: InitAnswers, hasToken: Bool, data: String) -> [String] {
        let environment = hasToken ? " --environment production" : ""
        let place = "--container \(container)\(environment) --data \(data.shellWord)"
        let start = data == "/var/lib/zonecast" ? "sudo " : ""
        let token = hasToken ? [] : ["\(start)zonecast token create \(place)"]
        return token + (answers.admin.map { ["\(start)zonecast user sign-in \($0) \(place)"] } ?? [])
    }

    private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }

    static func isName(_ text: String) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        return text.utf8.count <= 253
            && labels.allSatisfy { label in
                (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                    && label.utf8.allSatisfy { byte in
                        byte == UInt8(ascii: "-") || (byte < 0x80 && Character(UnicodeScalar(byte)).isLetter)
                            || (byte >= 0x30 && byte <= 0x39)
                    }
            }
    }
}

/// Random bytes from the system.
enum RandomBytes {
    static func make(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
}
