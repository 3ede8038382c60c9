import ChildProcesses
import Foundation
import Testing
import ZoneTesting

/// The catalogue's code must match `ArticleCode.swift`, which is compiled and run.
@Suite struct ArticleTests {
    @Test(arguments: ["ZoneTesting", "WorldsInATest"])
    func allCodeOfAnArticleIsCompiled(_ article: String) throws {
        let code = try Self.code("ArticleCode")
        let blocks = try Self.blocks(of: article)
        #expect(!blocks.isEmpty)
        for block in blocks { #expect(code.contains(Self.plain(block)), "\(block)") }
    }

    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

    /// The text of a file of these tests.
    private static func code(_ file: String) throws -> String {
        plain(try String(contentsOf: tests.appendingPathComponent("\(file).swift"), encoding: .utf8))
    }

    /// The Swift code blocks of an article.
    private static func blocks(of article: String) throws -> [String] {
        let catalogue = tests.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Sources/ZoneTesting/ZoneTesting.docc/\(article).md")
        let parts = try String(contentsOf: catalogue, encoding: .utf8).components(separatedBy: "```")
        // Every second part is between two fences.
        return stride(from: 1, to: parts.count, by: 2).map { parts[$0] }.filter { $0.hasPrefix("swift\n") }
            .map { String($0.dropFirst(6)) }
    }

    /// Compares the first article's code without its imports, and has the package tools read its manifest.
    @Test func theFirstArticleIsCompiledAndItsManifestIsValid() async throws {
        let blocks = try Self.blocks(of: "YourFirstTest")
        try #require(blocks.count == 3)
        let code = try Self.code("FirstTestCode")
        for block in blocks[1...] {
            let lines = block.split(separator: "\n").filter { !$0.contains("import ") }
            #expect(code.contains(Self.plain(lines.joined(separator: "\n"))), "\(block)")
        }
        let folder = TestFolder()
        let place = try folder.make("Shopping")
        try Data(blocks[0].utf8).write(to: place.appendingPathComponent("Package.swift"))
        let described = try await Self.swift("package", "--package-path", place.path, "dump-package")
        #expect(described.contains(#""ZoneTesting""#), "\(described)")
    }

    /// Runs the toolchain's `swift` and returns its output.
    private static func swift(_ words: String...) async throws -> String {
        let process = ChildProcess()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["swift"] + words
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = await withCheckedContinuation { done in
            Thread { done.resume(returning: pipe.fileHandleForReading.readDataToEndOfFile()) }.start()
        }
        process.waitUntilExit()
        return String(decoding: output, as: UTF8.self)
    }

    /// Removes indentation and empty lines.
    private static func plain(_ text: String) -> String {
        text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
            .joined(separator: "\n")
    }
}
