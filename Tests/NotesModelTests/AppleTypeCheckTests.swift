import ChildProcesses
import Foundation
import TestSupport
import Testing

/// Type-checks what only Apple platforms build, as far as that is possible on Linux.
///
/// What Apple's frameworks do is not tested here.
@Suite(.timeLimit(.minutes(15))) struct AppleTypeCheckTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL

    #if os(Linux)
        /// The stubs have only the declarations that the app and `@SyncedQuery` use.
        @Test("the SwiftUI app and @SyncedQuery match the SDK, and stubs of Apple's frameworks")
        func theSwiftUIAppIsTypeChecked() throws {
            let folder = try Self.scratchFolder()
            defer { withExtendedLifetime(folder) {} }
            let arguments =
                try Self.importArguments(of: "NotesModel", isApp: true) + ["-I", folder.path, "-parse-as-library"]
            // SwiftUI imports UIKit, and AuthenticationServices imports SwiftUI.
            for stub in ["UIKit", "SwiftUI", "AuthenticationServices", "BackgroundTasks", "Security"] {
                let output = ["-emit-module", "-module-name", stub, "-o", "\(folder.path)/\(stub).swiftmodule"]
                let problems = try Self.compile(output + arguments + [Self.path("Tests/AppleStubs/\(stub).swift")])
                #expect(problems == nil)
            }
            let app = try Self.swiftFiles("Sources/SyncedNotes/Sources/NotesApp")
            #expect(app.count >= 4)
            // `SyncedQuery` is compiled as a part of the app: the built ZoneMirror does not contain it.
            let files = app + [Self.path("Sources/ZoneMirror/Context/SyncedQuery.swift")]
            let options = ["-module-name", "NotesApp", "-Xfrontend", "-import-module", "-Xfrontend", "ZoneMirror"]
            #expect(try Self.compile(["-typecheck"] + options + arguments + files) == nil)

            // The check finds a mistake.
            let wrong = "\(folder.path)/Wrong.swift"
            try Data("import NotesModel\nfunc wrong(_ notes: Notes) { notes.remove() }".utf8)
                .write(to: URL(fileURLWithPath: wrong))
            let problems = try Self.compile(["-typecheck"] + options + arguments + files + [wrong])
            #expect(problems?.contains("has no member 'remove'") == true)
        }

        /// On Linux, FoundationNetworking has this API.
        ///
        /// Programs do not use it there: its requests cannot be cancelled safely.
        @Test("the transports for URLSession match Foundation on Linux")
        func theTransportsForURLSessionAreTypeChecked() throws {
            let folder = try Self.scratchFolder()
            defer { withExtendedLifetime(folder) {} }
            let names = ["URLSessionTransport.swift", "URLSessionSocket.swift"]
            let files = try Self.swiftFiles("Sources/ZoneKit")
            var arguments = try Self.importArguments(of: "ZoneKit")
            arguments += ["-module-name", "ZoneKit", "-enable-upcoming-feature", "InternalImportsByDefault"]
            for file in files {
                guard let name = names.first(where: { file.hasSuffix("/\($0)") }) else {
                    arguments.append(file)
                    continue
                }
                let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
                #expect(lines.first?.hasPrefix("#if ") == true && lines.last == "#endif")
                let copy = "\(folder.path)/\(name)"
                try Data((["import FoundationNetworking"] + lines[1...].dropLast()).joined(separator: "\n").utf8)
                    .write(to: URL(fileURLWithPath: copy))
                // Only these files are checked; of the others, the compiler reads the declarations.
                arguments += ["-primary-file", copy]
            }
            #expect(arguments.count { $0 == "-primary-file" } == names.count)
            #expect(try Self.compile(["-frontend", "-typecheck"] + arguments) == nil)
        }
    #endif

    private static func path(_ file: String) -> String { "\(root.path)/\(file)" }

    private static func scratchFolder() throws -> ScratchFolder {
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        return folder
    }

    private static func swiftFiles(_ folder: String) throws -> [String] {
        (FileManager.default.enumerator(atPath: path(folder))?.allObjects ?? []).compactMap { $0 as? String }
            .filter { $0.hasSuffix(".swift") }.map { path("\(folder)/\($0)") }
    }

    /// Returns the arguments with which the build compiled a module, as far as they say where modules are.
    ///
    /// An app is in a package of its own and sees no `package` declarations.
    private static func importArguments(of module: String, isApp: Bool = false) throws -> [String] {
        let plan = try String(contentsOfFile: path(".build/debug.yaml"), encoding: .utf8)
        let name = "\"-module-name\",\"\(module)\""
        let command = try #require(plan.split(separator: "\n").first { $0.contains("args: [") && $0.contains(name) })
        let list = try #require(command.firstIndex(of: "["))
        let all = try JSONDecoder().decode([String].self, from: Data(command[list...].utf8))
        var found = ["-swift-version", "6"]
        var index = 0
        while index + 1 < all.count {
            let isPair = ["-I", "-Xcc", "-package-name"].contains(all[index])
            let isWanted = !all[index + 1].hasPrefix("-g") && !(isApp && all[index] == "-package-name")
            if isPair, isWanted { found += all[index...index + 1] }
            index += isPair ? 2 : 1
        }
        return found
    }

    /// Returns what the compiler reports; `nil` if it succeeds.
    private static func compile(_ arguments: [String]) throws -> String? {
        let process = ChildProcess()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["swiftc"] + arguments
        let pipe = Pipe()
        process.standardError = pipe
        process.standardOutput = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return process.terminationStatus == 0 ? nil : output
    }
}
