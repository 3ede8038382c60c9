import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// Which data folder a command works on, and how it answers.
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

    @Flag(help: "Answer with one line of JSON.")
    var json = false

    init() {}

    /// For a command with a `--data` of its own.
    init(data: String?) {
        self.data = data
        json = false
    }

    func validate() throws {
        if data?.isEmpty == true { throw ValidationError("--data is empty. Name the data folder.") }
        if let data, data.hasPrefix("~") {
            throw ValidationError("--data \(data): the shell has left the ~ as it is. Write the home folder out.")
        }
    }

    var folder: String { data ?? PackageFiles.standardData }

    /// Runs `body` on the folder's directory, which may be in use by a relay at the same time.
    ///
    /// Makes the folder only where `creates` says so: a mistyped one should be told, not made.
    func withDirectory<Value>(creates: Bool = false, _ body: (AccountStore) throws -> Value) throws -> Value {
        try allowDirectory(creates: creates)
        do {
            return try body(try AccountStore(folder: folder))
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: folder)
        }
    }

    /// The same for a body that waits for a relay.
    func holdingDirectory<Value>(_ body: (AccountStore) async throws -> Value) async throws -> Value {
        try allowDirectory(creates: false)
        do {
            return try await body(try AccountStore(folder: folder))
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: folder)
        }
    }

    /// Throws where there is no directory, or none for this user; goes on as its owner.
    private func allowDirectory(creates: Bool) throws {
        if let refusal = FolderAccess.refusal(folder) { throw CommandFailure(.notAllowed, refusal) }
        guard creates || FileManager.default.fileExists(atPath: folder + "/relay.sqlite") else {
            throw CommandFailure(
                .failed,
                "There is no relay data in \(folder). Name the folder with --data, or begin with: zonecast container create ID"
            )
        }
        FolderOwner.become(ownerOf: folder)
    }
}

extension FolderOptions {
    /// As `withDirectory`, for a body that changes who may do what: the console's audit log shows it.
    func change<Value>(
        _ action: String,
        _ subject: String,
        in home: ContainerEnvironment? = nil,
        creates: Bool = false,
        _ body: (AccountStore) throws -> Value
    ) throws -> Value {
        try withDirectory(creates: creates) { store in
            try store.noting(AuditEntry(command: action, subject, in: home)) { try body(store) }
        }
    }
}

/// Which configuration a command goes by.
struct SettingsOption: ParsableArguments {
    @Option(
        help: ArgumentHelp("A YAML file of settings. (default: $ZONECAST_CONFIG, or the package's)", valueName: "file"),
        completion: .file()
    )
    var config: String?

    /// The settings as a relay started with the same file and folder would have them, that folder among them.
    ///
    /// - Throws: `CommandFailure` where the file or the environment has mistakes.
    func read(_ options: FolderOptions? = nil) async throws -> ServeSettings {
        let environment = ProcessInfo.processInfo.environment
        let flags = options?.data.map { ["data": $0] } ?? [:]
        let file = PackageFiles.settings(named: config, data: options?.data)
        return try await ConfigurationReading(flags: flags, environment: environment, file: file).settings
    }
}

/// Which container and environment a command speaks of.
struct HomeOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The container, such as iCloud.org.example.notes.", valueName: "id"))
    var container: ContainerID

    @Option(help: "development or production.")
    var environment: Records.Environment = .development

    var home: ContainerEnvironment { ContainerEnvironment(container, environment) }
}

/// The same where it only narrows a list.
struct HomeFilter: ParsableArguments {
    @Option(help: ArgumentHelp("Only those of this container.", valueName: "id"))
    var container: ContainerID?

    @Option(help: "Only those of development or production.")
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
