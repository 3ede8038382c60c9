import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

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

    @Flag(help: "Print one line of JSON.")
    var json = false

    init() {}

    /// For a command that declares its own `--data`.
    init(data: String?) {
        self.data = data
        json = false
    }

    func validate() throws {
        if data?.isEmpty == true { throw ValidationError("--data is empty. Name the data folder.") }
        if let data, data.hasPrefix("~") {
            throw ValidationError(
                "--data \(data): the shell did not expand the ~. Write the full path of the home folder."
            )
        }
    }

    var folder: String { data ?? PackageFiles.standardData }

    /// Runs `body` with the folder's account store, which a relay may be using at the same time.
    ///
    /// Creates the folder only if `creates` is set, so that a mistyped name is reported.
    func withDirectory<Value>(creates: Bool = false, _ body: (AccountStore) throws -> Value) throws -> Value {
        try checkDirectory(creates: creates)
        do {
            return try body(try AccountStore(folder: folder))
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: folder)
        }
    }

    /// Like `withDirectory`, for an asynchronous body.
    func withDirectoryAsync<Value>(_ body: (AccountStore) async throws -> Value) async throws -> Value {
        try checkDirectory(creates: false)
        do {
            return try await body(try AccountStore(folder: folder))
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: folder)
        }
    }

    /// Throws if the folder has no relay data or is not accessible; then continues as the folder's owner.
    private func checkDirectory(creates: Bool) throws {
        Terminal.trace("data folder \(folder)")
        if let refusal = FolderAccess.refusal(folder) { throw CommandFailure(.notAllowed, refusal) }
        guard creates || FileManager.default.fileExists(atPath: folder + "/relay.sqlite") else {
            throw CommandFailure(
                .failed,
                "There is no relay data in \(folder). Name the folder with --data, or create one: zonecast container create ID"
            )
        }
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
        _ body: (AccountStore) throws -> Value
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

extension AccountStore {
    /// Throws if the container does not exist.
    func requireContainer(_ container: ContainerID) throws {
        guard try hasContainer(container) else { throw DirectoryError.missing("container \(container)") }
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
        let flags = options?.data.map { ["data": $0] } ?? [:]
        let file = PackageFiles.settings(named: config, data: options?.data)
        return try await ConfigurationReading(flags: flags, environment: environment, file: file).settings
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

/// The environment variables that the SDK reads too.
enum SDKVariables {
    static var container: ContainerID? { text("ZONECAST_CONTAINER").flatMap { ContainerID($0) } }

    static var environment: Records.Environment? {
        text("ZONECAST_ENVIRONMENT").flatMap { Records.Environment(rawValue: $0) }
    }

    /// The user's web auth token, or that of a user of a relay with `--dev`.
    static var webToken: String? { text("ZONECAST_WEB_TOKEN") ?? text("ZONECAST_DEV_USER").map { "dev-\($0)" } }

    /// Returns a variable's value; `nil` if it is not set or empty.
    static func text(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }
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
