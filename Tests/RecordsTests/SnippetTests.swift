import ChildProcesses
import Foundation
import TestSupport
import Testing

/// The Swift code in the README, the guides and the DocC catalogues is compiled as it stands.
///
/// A page names the files that contain its code, in a comment before it or at its end: `<!-- Code: Tests/X/Code.swift -->`.
/// Each code block must be in one of these files, line by line; only the indentation may differ. A block that begins with
/// an import is the beginning of a file. A block with a package's manifest is read by the package tools.
@Suite(.timeLimit(.minutes(15))) struct SnippetTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL

    /// Every page with Swift code, by its path.
    private static let pages: [String] = {
        let folders = ["Deploy/guides", "Sources"]
        let found = folders.flatMap { folder in
            (FileManager.default.enumerator(atPath: root.appendingPathComponent(folder).path)?.allObjects ?? [])
                .compactMap { $0 as? String }.map { "\(folder)/\($0)" }
        }
        let pages = found.filter {
            !$0.contains("/.build/") && $0.hasSuffix(".md") && ($0.hasPrefix("Deploy/") || $0.contains(".docc/"))
        }
        return (["README.md"] + pages.sorted()).filter { (try? text($0).contains("```swift")) == true }
    }()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// Returns the Swift code blocks of a page.
    static func blocks(in page: String) -> [String] {
        page.components(separatedBy: "```swift\n").dropFirst().map { $0.components(separatedBy: "\n```")[0] }
    }

    /// Removes indentation and empty lines.
    static func plain(_ text: String) -> String {
        "\n"
            + text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
            .joined(separator: "\n") + "\n"
    }

    private static func isManifest(_ block: String) -> Bool { block.hasPrefix("// swift-tools-version:") }

    @Test("every code block is in a compiled file that its page names", arguments: pages)
    func everyBlockIsCompiled(_ page: String) throws {
        let text = try Self.text(page)
        var files: [(path: String, code: String)] = []
        for match in text.matches(of: /<!-- Code: ([^ ]+) -->/) {
            let path = String(match.1)
            #expect(path.hasSuffix(".swift") && (path.hasPrefix("Sources/") || path.hasPrefix("Tests/")), "\(path)")
            files.append((path, Self.plain(try Self.text(path))))
        }
        var used: Set<String> = []
        for block in Self.blocks(in: text) where !Self.isManifest(block) {
            let code = Self.plain(block)
            let file = files.first { block.contains("import ") ? $0.code.hasPrefix(code) : $0.code.contains(code) }
            #expect(file != nil, "\(page) has code that is in none of \(files.map(\.path)):\n\(block)")
            if let file { used.insert(file.path) }
        }
        #expect(Set(files.map(\.path)).subtracting(used).isEmpty, "\(page) names files that it does not use")
    }

    @Test("every code block is complete: its brackets are balanced", arguments: pages)
    func everyBlockIsComplete(_ page: String) throws {
        for block in Self.blocks(in: try Self.text(page)) {
            for (open, close) in [("{", "}"), ("(", ")"), ("[", "]")] as [(Character, Character)] {
                let (opened, closed) = (block.count { $0 == open }, block.count { $0 == close })
                #expect(opened == closed, "\(page): \(open) and \(close) of\n\(block)")
            }
        }
    }

    /// A dependency by path has a name, so that the folder of the clone may have any.
    @Test("every manifest is read by the package tools, and names platforms and any folder", arguments: pages)
    func everyManifestIsValid(_ page: String) throws {
        for block in Self.blocks(in: try Self.text(page)) where Self.isManifest(block) {
            #expect(block.contains("platforms: ["), "\(page)")
            #expect(block.contains(#"package(name: "zonecast""#) || block.contains("/zonecast.git"), "\(page)")
            let folder = ScratchFolder()
            defer { withExtendedLifetime(folder) {} }
            try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
            try Data(block.utf8).write(to: URL(fileURLWithPath: folder.path + "/Package.swift"))
            let process = ChildProcess()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["swift", "package", "--package-path", folder.path, "dump-package"]
            let pipe = Pipe()
            process.standardOutput = pipe
            process.standardError = pipe
            try process.run()
            let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(output.contains(#""toolsVersion""#), "\(page): \(output)")
        }
    }

    @Test("code that differs from its file is found")
    func differencesAreFound() {
        let page = "Text\n\n```swift\nlet a = 1\n\n    let b = 2\n```\n\n```console\n$ c\n```\n"
        #expect(Self.blocks(in: page) == ["let a = 1\n\n    let b = 2"])
        let code = Self.plain(Self.blocks(in: page)[0])
        #expect(Self.plain("x\n  let a = 1\n  let b = 2\ny").contains(code))
        #expect(!Self.plain("x\n  let a = 1\n  let b = 23\ny").contains(code))
        #expect(!Self.plain("x\n  let a = 1\n  print(a)\n  let b = 2\ny").contains(code))
    }
}
