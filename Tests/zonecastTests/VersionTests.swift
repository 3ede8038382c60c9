import Foundation
import TestSupport
import Testing

@testable import zonecast

/// The version is stated in one place, and everything that shows it agrees.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct VersionTests {
    private let folder = ScratchFolder()
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL.path

    @Test("--version, version, /healthz and Deploy/version agree") func oneVersion() throws {
        let version = Zonecast.version
        #expect(try Command.run(["--version"]).output == version + "\n")
        #expect(try Command.run(["version", "--json"]).output.contains("\"\(version)\""))
        #expect(try Tool.run("bash", ["\(Self.root)/Deploy/version"]).output == version + "\n")
        let relay = try RelayProcess(folder: folder.path)
        let answer = try relay.connect().send("GET", "/healthz")
        #expect(String(decoding: answer.body, as: UTF8.self) == "up\nzonecast \(version)\n")
        #expect(relay.stop().status == 0)
    }

    @Test("no other file states the version") func oneLine() throws {
        for path in ["README.md", "Deploy/compose.yaml", "Deploy/debian/control", "Sources/zonecast/Zonecast.swift"] {
            let text = try String(contentsOfFile: "\(Self.root)/\(path)", encoding: .utf8)
            #expect(!text.contains(Zonecast.version), "\(path)")
        }
    }
}
