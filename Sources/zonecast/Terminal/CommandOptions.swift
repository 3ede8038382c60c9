import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem

/// The options that select the data folder and the output format.
struct FolderOptions: ParsableArguments {
    @Option(
        name: .customLong("data"),
        help: ArgumentHelp(
            "The data folder. (default: $ZONECAST_DATA, the configuration's, or ./zonecast-data)",
            valueName: "dir"
        ),
        completion: .directory
    )
    var data: String?

    @Option(
        help: ArgumentHelp(
            "The relays' database, instead of a data folder's files. (default: $ZONECAST_STORE, or the configuration's)",
            valueName: "url"
        )
    )
    var store: String?

    @Flag(help: "Print one line of JSON.")
    var json = false

    init() {}

    /// For a command that declares its own `--data`.
    init(data: String?) {
        self.data = data
        store = nil
        json = false
    }

    func validate() throws {
        if data?.isEmpty == true { throw ValidationError("--data is empty. Name the data folder.") }
        if let data, data.hasPrefix("~") {
            throw ValidationError(
                "--data \(data): the shell did not expand the ~. Write the full path of the home folder."
            )
        }
        try chooseStore()
    }

    /// Chooses the database that the options, the environment or the configuration name.
    private func chooseStore() throws {
        let (file, environment) = (PackageFiles.settings(named: nil, data: data), ProcessInfo.processInfo.environment)
        guard let named = store ?? PackageFiles.standardStore(by: file) else { return }
        guard let address = StoreAddress(named) else {
            throw ValidationError("\(store == nil ? "store" : "--store") takes \(StoreAddress.form).")
        }
        if store != nil, let objection = address.objectionToFlag { throw ValidationError(objection) }
        let passwordFile =
            environment["ZONECAST_STORE_PASSWORD_FILE"]
            ?? file.flatMap { PackageFiles.value(of: "store-password-file", in: $0) }
        let replicas =
            environment["ZONECAST_PUBLIC_QUERY_REPLICAS"]
            ?? file.flatMap { PackageFiles.value(of: "public-query-replicas", in: $0) }
        do {
            try DataFolder.choose(
                address,
                folder: folder,
                passwordFile: passwordFile,
                replicas: replicas.flatMap(StoreAddress.init),
                environment: environment
            )
        } catch let failure as CommandFailure {
            throw ValidationError(failure.description)
        }
    }

    var folder: String { data ?? PackageFiles.standardData }

    /// What the folder contains.
    var home: any RelayHome { DataFolder.home(folder) }

    /// Runs `body` with the folder's account store, which a relay may be using at the same time.
    ///
    /// Creates the folder only if `creates` is set, so that a mistyped name is reported.
    func withDirectory<Value>(creates: Bool = false, _ body: (any AccountDirectory) throws -> Value) throws -> Value {
        try checkDirectory(creates: creates)
        do {
            return try body(try DataFolder.home(folder, creates: creates).accounts())
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: folder)
        }
    }

    /// Like `withDirectory`, for an asynchronous body.
    func withDirectoryAsync<Value>(_ body: (any AccountDirectory) async throws -> Value) async throws -> Value {
        try checkDirectory(creates: false)
        do {
            return try await body(try home.accounts())
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: folder)
        }
    }

    /// Throws if the folder has no relay data or is not accessible; then continues as the folder's owner.
    private func checkDirectory(creates: Bool) throws {
        if let database = DataFolder.database { return Terminal.trace("database \(database)") }
        Terminal.trace("data folder \(folder)")
        if creates { try DataFolder.requireMatch(folder) }
        if let refusal = FolderAccess.refusal(folder) { throw CommandFailure(.notAllowed, refusal) }
        guard creates || FileManager.default.fileExists(atPath: folder + "/relay.sqlite") else {
            throw CommandFailure(
                .failed,
                "There is no relay data in \(folder). Name the folder with --data, or create one: zonecast container create ID"
            )
        }
        try DataFolder.requireNotMoved(folder)
        FolderOwner.become(ownerOf: folder)
    }
}

extension FolderOptions {
    /// Like `withDirectory`, for a change of access rights, which is recorded in the console's audit log.
    func change<Value>(
        _ action: String,
        _ subject: String,
        in home: ContainerEnvironment? = nil,
        creates: Bool = false,
        _ body: (any AccountDirectory) throws -> Value
    ) throws -> Value {
        try withDirectory(creates: creates) { store in
            try store.withAuditEntry(AuditEntry(command: action, subject, in: home)) { try body(store) }
        }
    }
}

extension FolderOptions {
    /// Writes a list: with `--json` an object with the member `name`, otherwise a table with a line per row.
    func list<Row: Encodable>(
        _ rows: [Row],
        as name: String,
        heading: [String],
        empty: String,
        cells: (Row) -> [String]
    ) throws {
        if json { return try Terminal.say(json: [name: rows]) }
        Terminal.say(table: rows.map(cells), heading: heading, empty: empty)
    }

    /// Writes that the command has done its work: `{"revoked":true}` or `revoked`.
    func confirm(_ done: String) throws {
        if json { try Terminal.say(json: [done: true]) } else { Terminal.tell(done) }
    }
}

/// The option that selects the configuration file.
struct SettingsOption: ParsableArguments {
    @Option(
        help: ArgumentHelp("A YAML file of settings. (default: $ZONECAST_CONFIG, or the package's)", valueName: "file"),
        completion: .file()
    )
    var config: String?

    /// Returns the settings of a relay started with the same file and folder.
    ///
    /// - Throws: `CommandFailure` if the file or the environment has errors.
    func read(_ options: FolderOptions? = nil) async throws -> ServeSettings {
        let environment = ProcessInfo.processInfo.environment
        var flags: [String: String] = [:]
        flags["data"] = options?.data
        flags["store"] = options?.store
        let file = PackageFiles.settings(named: config, data: options?.data)
        let settings = try await ConfigurationReading(flags: flags, environment: environment, file: file).settings
        try DataFolder.choose(settings)
        return settings
    }
}

/// The options that select a container and an environment.
struct HomeOptions: ParsableArguments {
    @Option var container: ContainerID

    @Option(name: .environment, help: "development or production. (default: $ZONECAST_ENVIRONMENT, or development)")
    var environment: Records.Environment = SDKVariables.environment ?? .development

    init() { _container = .container }

    var home: ContainerEnvironment { ContainerEnvironment(container, environment) }
}

/// The environment variables that the SDK reads too, and the password of the relays' database.
///
/// As for the SDK, `ZONECAST_CONFIG` may name a JSON file with these names, which is then read instead. If it names the
/// relay's YAML file, the environment is read.
enum SDKVariables {
    /// All names, which are no settings of the relay.
    static let names: Set<String> = [
        "ZONECAST_CONFIG", "ZONECAST_CONTAINER", "ZONECAST_URL", "ZONECAST_ENVIRONMENT", "ZONECAST_API_TOKEN",
        "ZONECAST_WEB_TOKEN", "ZONECAST_DEV_USER", "ZONECAST_EMAIL", "ZONECAST_PASSWORD", "ZONECAST_KEY_ID",
        "ZONECAST_KEY_FILE", "ZONECAST_DEVICE_ID", "ZONECAST_ENCRYPTION_PASSPHRASE", DataFolder.passwordVariable,
    ]

    /// The credentials of a user or a server.
    enum Credential {
        case webToken(String)
        case account(email: String, password: String)
        case serverKey(id: String, file: String)
    }

    static var container: ContainerID? { text("ZONECAST_CONTAINER").flatMap { ContainerID($0) } }

    static var environment: Records.Environment? {
        text("ZONECAST_ENVIRONMENT").flatMap { Records.Environment(rawValue: $0) }
    }

    /// The credential, in the SDK's order: an account, a user of a relay with `--dev`, a server key, a web auth token.
    static var credential: Credential? {
        if let email = text("ZONECAST_EMAIL"), let password = text("ZONECAST_PASSWORD") {
            return .account(email: email, password: password)
        }
        if let user = text("ZONECAST_DEV_USER") { return .webToken("dev-\(user)") }
        if let id = text("ZONECAST_KEY_ID"), let file = text("ZONECAST_KEY_FILE") {
            return .serverKey(id: id, file: file)
        }
        return text("ZONECAST_WEB_TOKEN").map { .webToken($0) }
    }

    /// The token of a credential that needs no sign-in.
    static var webToken: String? {
        guard case .webToken(let token)? = credential else { return nil }
        return token
    }

    /// Returns a variable's value; `nil` if it is not set or empty.
    static func text(_ name: String) -> String? {
        let environment = ProcessInfo.processInfo.environment
        let value = name == "ZONECAST_CONTAINER" ? file?[name] ?? environment[name] : (file ?? environment)[name]
        return value.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The SDK's file, if `ZONECAST_CONFIG` names one.
    private static let file: [String: String]? = {
        guard let path = ProcessInfo.processInfo.environment["ZONECAST_CONFIG"],
            let data = FileManager.default.contents(atPath: path),
            let values = try? JSONDecoder().decode([String: String].self, from: data)
        else { return nil }
        return values["ZONECAST_URL"] == nil ? nil : values
    }()
}

extension NameSpecification {
    /// `-c` and `--container`.
    static let container: NameSpecification = [.customShort("c"), .customLong("container")]
    /// `-e` and `--environment`.
    static let environment: NameSpecification = [.customShort("e"), .customLong("environment")]
    /// `-n` and a long name, for how many lines or entries to print.
    static let count: NameSpecification = [.customShort("n"), .long]
}

extension Option where Value == ContainerID {
    /// The container, which `ZONECAST_CONTAINER` may name.
    static var container: Option {
        let help = ArgumentHelp(
            "The container, such as iCloud.org.example.notes. (default: $ZONECAST_CONTAINER)",
            valueName: "id"
        )
        guard let container = SDKVariables.container else { return Option(name: .container, help: help) }
        return Option(wrappedValue: container, name: .container, help: help)
    }
}

/// The options that restrict a list to a container or an environment.
struct HomeFilter: ParsableArguments {
    @Option(name: .container, help: ArgumentHelp("Only entries of this container.", valueName: "id"))
    var container: ContainerID?

    @Option(name: .environment, help: "Only entries of development or production.")
    var environment: Records.Environment?

    func admits(_ home: ContainerEnvironment) -> Bool {
        (container ?? home.container) == home.container && (environment ?? home.environment) == home.environment
    }
}

extension ContainerID: ExpressibleByArgument {
    package init?(argument: String) { self.init(argument) }
}

extension Records.Environment: ExpressibleByArgument {}

extension Timestamp {
    /// `2026-01-25T22:15:43Z`.
    var iso8601: String { Date(timeIntervalSince1970: Double(milliseconds) / 1000).formatted(.iso8601) }
}
