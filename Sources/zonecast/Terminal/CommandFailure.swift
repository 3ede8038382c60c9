import Foundation
import Records
import RelayCore
import RelaySystem

/// The exit codes of the command.
///
/// See CONTRIBUTING.md, "Commands and error texts".
enum CommandExit: Int32, Sendable {
    case done = 0
    /// The request was refused or a check failed.
    case failed = 1
    case usage = 2
    case unreachable = 3
    case notAllowed = 4
    case conflict = 5

    /// A code for programs.
    var kind: String {
        switch self {
        case .done: "DONE"
        case .failed: "FAILED"
        case .usage: "USAGE"
        case .unreachable: "UNREACHABLE"
        case .notAllowed: "NOT_ALLOWED"
        case .conflict: "CONFLICT"
        }
    }
}

/// Why a command failed: one or two sentences, including what to do.
struct CommandFailure: Error, CustomStringConvertible {
    var exit: CommandExit
    var description: String
    /// The relay's error code, if the relay refused the request.
    var code: String?

    /// The code for JSON output: the relay's, else the exit code's.
    var codeOrKind: String { code ?? exit.kind }

    init(_ exit: CommandExit, _ description: String) {
        self.exit = exit
        self.description = description
    }

    init(_ failure: BackupFailure) {
        switch failure {
        case .busy: self.init(.conflict, failure.description)
        case .nothingThere(let folder, _) where FolderAccess.isForbidden(folder):
            self.init(.notAllowed, failure.description)
        default: self.init(.failed, failure.description)
        }
    }

    /// A failed system call, by its error number.
    init(system fault: Int32, _ description: String) {
        self.init([EACCES, EPERM, EROFS].contains(fault) ? .notAllowed : .failed, description)
    }

    /// `folder` is the data folder.
    init(_ error: DirectoryError, folder: String) {
        switch error {
        case .exists(let what):
            self.init(.conflict, "The \(what) already exists.")
        // Text and remedy are the database's.
        case .unavailable(let text) where DataFolder.database != nil: self.init(.failed, text)
        case .damaged(let what) where DataFolder.database != nil:
            self.init(.failed, "The database \(DataFolder.place(folder)) is damaged: \(what) Restore its backup.")
        case .missing(let what) where what.hasPrefix("container "):
            let name = what.dropFirst("container ".count)
            let known = (try? DataFolder.home(folder).accounts().containers().map(\.container.name)) ?? []
            let near = ConfigurationKeys.suggestion(for: String(name), among: known)
            let meant = near.map { " Did you mean \($0)?" } ?? ""
            self.init(
                .failed,
                "There is no container \(name) in \(DataFolder.place(folder)).\(meant) Create it: zonecast container create \(name) \(DataFolder.option(folder))"
            )
        case .missing(let what):
            self.init(.failed, "There is no \(what) in \(DataFolder.place(folder)).")
        case .invalid(let text):
            self.init(.usage, text)
        case .unavailable(let text):
            let stop = text.hasSuffix(".") ? "" : "."
            self.init(
                .failed,
                "The data folder \(folder) cannot be used: \(text)\(stop) See: zonecast doctor --data \(folder.shellWord)"
            )
        case .damaged(let file):
            self.init(
                .failed,
                "\(file) in the data folder \(folder) is damaged. zonecast doctor --data \(folder.shellWord) shows where; "
                    + "zonecast backup restore latest --data \(folder.shellWord) puts the newest backup in its place."
            )
        }
    }
}
