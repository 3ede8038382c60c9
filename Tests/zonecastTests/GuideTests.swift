import Foundation
import TestSupport
import Testing

@testable import zonecast

/// The README and the guides: their commands run or at least exist, and the paths they name exist.
@Suite(.ownThread, .timeLimit(.minutes(15)), .serialized) struct GuideTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL.path
    private static let guides = ["operating", "apps", "sdk", "demo"].map { "Deploy/guides/\($0).md" }

    private static func text(_ path: String) throws -> String {
        try String(contentsOfFile: "\(root)/\(path)", encoding: .utf8)
    }

    /// Returns the lines after `$ ` in console blocks, without their `#` comments.
    static func commands(in path: String) throws -> [String] {
        var isConsole = false
        var found: [String] = []
        for line in try text(path).split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") {
                isConsole = line == "```console"
            } else if isConsole, line.hasPrefix("$ ") {
                let command = line.dropFirst(2)
                let end = command.firstRange(of: "  #")?.lowerBound ?? command.firstRange(of: " #")?.lowerBound
                found.append(command[..<(end ?? command.endIndex)].trimmingCharacters(in: .whitespaces))
            }
        }
        return found
    }

    /// Runs all commands that need neither root nor a build, in order, in an empty folder.
    @Test func theCommandsOfTheREADMERun() throws {
        let own = try Self.commands(in: "README.md").filter {
            // `DemoRunTests` covers the demo; Deploy/debian/test and Deploy/systemd/test run the commands that need
            // root, in a copy of the machine.
            ($0.hasPrefix("zonecast ") && !$0.hasPrefix("zonecast demo")) || $0.hasPrefix("export ")
        }
        #expect(own.count > 15)
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let ports = ["8080": try FreePort.take(), "8081": try FreePort.take()]
        var script = """
            set -eu
            cd '\(folder.path)'
            PATH='\(Command.program.deletingLastPathComponent().path)':$PATH
            trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
            printf 'correct horse\\n' > password

            """
        for var command in own {
            if command.hasPrefix("zonecast doctor") { command += " --timeout 120" }
            for (port, free) in ports { command = command.replacing(":\(port)", with: ":\(free)") }
            script += "echo \"step: \(command.replacing("\"", with: "'"))\"\n"
            guard command.hasSuffix("&") else {
                script += command + "\n"
                continue
            }
            let port = command.firstMatch(of: /--listen 127\.0\.0\.1:(\d+)/).map { String($0.1) } ?? ""
            script += command.dropLast() + "> serve.log 2>&1 &\n"
            script +=
                "until zonecast doctor --quick --url http://127.0.0.1:\(port); do kill -0 $!; sleep 0.1; done\n"
        }
        let file = folder.path + "/script"
        try Data(script.utf8).write(to: URL(fileURLWithPath: file))
        let run = try Tool.run("bash", [file])
        #expect(run.status == 0, "\(run.output)")
    }

    /// Every documented command has these verbs and options.
    @Test func everyDocumentedCommandExists() throws {
        for path in ["README.md"] + Self.guides {
            for command in try Self.commands(in: path) {
                var words = command.split(separator: " ").map(String.init)
                if words.first == "sudo" { words.removeFirst() }
                guard words.first == "zonecast" else { continue }
                words.removeFirst()
                let verbs = words.prefix { $0.allSatisfy { $0.isLowercase || $0 == "-" } && !$0.hasPrefix("-") }
                let help = HelpText.of(Array(verbs)).map { EverywhereFlags.added(to: $0) }
                #expect(help != nil, "\(path): \(command)")
                for option in words where option.hasPrefix("--") {
                    let name = String(option.prefix { $0 != "=" })
                    #expect(help?.contains(name) == true, "\(path): \(command): \(name)")
                }
            }
        }
    }

    @Test func everyNamedPathExists() throws {
        for path in ["README.md"] + Self.guides {
            let text = try Self.text(path)
            for match in text.matches(of: /(?:Deploy|Sources|Tests)\/[A-Za-z0-9_.\/-]*[A-Za-z0-9]/) {
                #expect(
                    FileManager.default.fileExists(atPath: "\(Self.root)/\(match.output)"),
                    "\(path): \(match.output)"
                )
            }
        }
        let lines = try Self.text("README.md").split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count < 180, "the README stays short enough to read in one go")
        for match in try Self.text("README.md").matches(of: /!\[[^\]]+\]\(([^)]+)\)/) {
            let attributes = try FileManager.default.attributesOfItem(atPath: "\(Self.root)/\(match.1)")
            #expect((attributes[.size] as? Int ?? .max) < 200_000, "\(match.1)")
        }
    }
}
