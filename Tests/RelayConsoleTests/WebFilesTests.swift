import Foundation
import HTTPTypes
import RelayAPI
import RelayConsole
import TestSupport
import Testing

@Suite struct WebFilesTests {
    private static let repository = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    @Test("the embedded sources are those that Deploy/embed generates")
    func embeddedFilesAreCurrent() throws {
        let folder = ScratchFolder()
        let embed = Process()
        embed.executableURL = Self.repository.appending(path: "Deploy/embed")
        embed.arguments = [folder.path]
        try embed.run()
        embed.waitUntilExit()
        #expect(embed.terminationStatus == 0)
        for source in [
            "Sources/RelayConsole/WebFiles+Embedded.swift", "Sources/RelayAPI/OpenAPI/OpenAPIDocument+Text.swift",
        ] {
            let made = try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(source)"))
            let kept = try Data(contentsOf: Self.repository.appending(path: source))
            #expect(made == kept, "\(source) is not current: run Deploy/embed")
        }
    }

    @Test("a page edited in a folder is served without a build, if the program embeds a page of that name")
    func servesAFolder() async throws {
        let folder = ScratchFolder()
        let web = URL(fileURLWithPath: folder.path)
        let source = Self.repository.appending(path: "Sources/RelayConsole/Web")
        try FileManager.default.copyItem(at: source, to: web)
        let pages = try ServedPages(
            DemoPages(isOpen: true, run: "1", files: WebFiles(folder: folder.path)).entries
        )
        let closed = try ServedPages(DemoPages(isOpen: false, run: "1").entries)
        func page(_ path: String, of pages: ServedPages) async -> String? {
            await pages.answer(APIRequest(method: .get, path: path)).map { String(decoding: $0.body, as: UTF8.self) }
        }
        let before = try #require(await page("/demo/store.js", of: pages))
        try Data((before + "// edited\n").utf8).write(to: web.appending(path: "demo/store.js"))
        try Data("secret".utf8).write(to: web.appending(path: "demo/other.js"))
        #expect(await page("/demo/store.js", of: pages)?.hasSuffix("// edited\n") == true)
        #expect(await page("/demo/other.js", of: pages) == nil)
        let module = await page("/zonecast.js", of: pages)
        #expect(module == (await page("/zonecast.js", of: closed)))
        #expect(module?.contains("from \"./json.js\"") == false)
    }
}
