import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem

/// The inputs of `zonecast init`.
struct InitAnswers {
    var domain: String?
    var container: ContainerID?
    var admin: String?
    var wantsToken = false

    /// Returns the default container of a domain: `iCloud.org.example.sync` for `sync.example.org`.
    static func container(of domain: String) -> ContainerID? {
        ContainerID("iCloud." + domain.split(separator: ".").reversed().joined(separator: "."))
    }

    /// Prompts for missing inputs; an empty line skips one.
    mutating func ask() throws {
        if domain == nil {
            domain = try Self.answer("The relay's domain name for clients (empty: this machine only)") { text in
                guard InitCommand.isName(text) else {
                    throw ValidationError("\"\(text)\" is not a name like sync.example.org.")
                }
                return text
            }
        }
        if container == nil {
            let proposal = domain.flatMap(Self.container) ?? ContainerID("iCloud.org.example.notes")
            container =
                try Self.answer("First container (empty: \(proposal?.name ?? ""))") { text in
                    guard let container = ContainerID(text) else {
                        throw ValidationError(ContainerID.rule(brokenBy: text))
                    }
                    return container
                } ?? proposal
        }
        if admin == nil {
            admin = try Self.answer("E-mail address of the first admin (empty: none)") { text in
                try InitCommand.checkAdmin(text)
                return text
            }
        }
        if !wantsToken {
            wantsToken =
                try Self.answer("Create the app's API token for production? (empty: no, or yes)") { text in
                    guard let isWanted = ["yes": true, "y": true, "no": false, "n": false][text.lowercased()] else {
                        throw ValidationError("Answer yes or no.")
                    }
                    return isWanted
                } ?? false
        }
    }

    /// Prompts until the input is valid or empty.
    private static func answer<Value>(_ prompt: String, _ take: (String) throws -> Value) throws -> Value? {
        while let text = try line(prompt) {
            do {
                return try take(text)
            } catch {
                Terminal.sayError("\((error as? ValidationError)?.message ?? "\(error)")")
            }
        }
        return nil
    }

    /// - Throws: `CommandFailure` at the end of input, which is not the same as an empty line.
    private static func line(_ prompt: String) throws -> String? {
        Terminal.put("\(prompt): ", on: STDERR_FILENO)
        guard let text = readLine()?.trimmingCharacters(in: .whitespaces) else {
            Terminal.put("\n", on: STDERR_FILENO)
            throw CommandFailure(
                .failed,
                "The input ended early. Nothing was created. Use --yes to skip all questions: zonecast init --help"
            )
        }
        return text.isEmpty ? nil : text
    }
}

/// One item that `zonecast init` created or found.
struct InitStep: Encodable {
    var what: String
    var detail: String
    var made: Bool

    init(_ what: String, _ detail: String, isNew: Bool) {
        self.what = what
        self.detail = detail
        made = isNew
    }
}

/// The output of `zonecast init`.
struct InitReport {
    let asJSON: Bool
    private var steps: [InitStep] = []

    init(asJSON: Bool) { self.asJSON = asJSON }

    mutating func note(_ step: InitStep) {
        steps.append(step)
        guard !asJSON else { return }
        Terminal.tell("\(step.made ? "created" : "kept   ")  \(step.what.filled(to: 44))  \(step.detail)")
    }

    func end(next: [String]) throws {
        struct Answer: Encodable {
            var steps: [InitStep]
            var next: [String]
        }
        if asJSON { return try Terminal.say(json: Answer(steps: steps, next: next)) }
        next.forEach { Terminal.tell("next     \($0)") }
    }
}

/// Writes files without ever overwriting one.
enum NewFile {
    static func write(_ text: String, to path: String, what: String) throws -> InitStep {
        let step = InitStep(what, path, isNew: !FileManager.default.fileExists(atPath: path))
        guard step.made else { return step }
        do {
            try FileManager.default.createDirectory(
                atPath: (path as NSString).deletingLastPathComponent,
                withIntermediateDirectories: true
            )
            // Fails if the file was created meanwhile.
            try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .withoutOverwriting)
        } catch {
            throw CommandFailure(
                .failed,
                "\(path) cannot be written: \(FolderAccess.reason(error)). Name another folder with --files, or run this as root."
            )
        }
        return step
    }
}
