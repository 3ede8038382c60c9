import ArgumentParser
import Foundation
import Records
import Wire

extension SchemaCommand {
    struct Codegen: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Generate Swift for a schema: structs around records, or a mirror's model.",
            discussion: """
                Uses a container's schema, or with --file a text. records generates structs around CKRecord for ZoneKit, or with \
                --module CloudKit for Apple's framework; mirror generates ZoneMirror's structs and their model.

                A name that Swift or the generated text uses for something else, and one that two types or fields would share, \
                gets "Record" or "Field" appended, and a number if that name is taken too.
                """
        )

        @Option(help: ArgumentHelp("The container, such as iCloud.org.example.notes.", valueName: "id"))
        var container: ContainerID?

        @Option(help: "development or production.")
        var environment: Records.Environment = .development

        @Option(
            help: ArgumentHelp("The schema's text instead; - reads standard input.", valueName: "file"),
            completion: .file()
        )
        var file: String?

        @Option(help: "records or mirror.")
        var form: SchemaCode.Form = .records

        @Option(help: "The access level of all declarations: internal, package or public.")
        var access: SchemaCode.Access = .internal

        @Option(help: "For records: ZoneKit or CloudKit.")
        var module = "ZoneKit"

        @Option(
            name: [.customLong("output-file"), .customShort("o")],
            help: ArgumentHelp("Write the Swift to this file instead.", valueName: "file"),
            completion: .file()
        )
        var output: String?

        @OptionGroup var options: FolderOptions

        func validate() throws {
            guard (container == nil) != (file == nil) else {
                throw ValidationError("Name a container with --container, or a schema's text with --file.")
            }
            guard ["ZoneKit", "CloudKit"].contains(module) else {
                throw ValidationError("--module is ZoneKit or CloudKit.")
            }
        }

        func run() throws {
            let (schema, source) = try read()
            let text = SchemaCode(schema, from: source, access: access, module: module).text(form)
            if let output { try OutputFile.write(text, to: output) }
            if options.json {
                try Terminal.say(json: ["source": source, "form": form.rawValue, "swift": text])
            } else if output == nil {
                Terminal.deliver(text)
            }
        }

        private func read() throws -> (Schema, String) {
            guard let container else {
                let text = try SchemaFile(reading: file ?? "-")
                try text.requireValid(json: options.json)
                return (text.text.schema, text.name)
            }
            let schema = try SchemaWork(container, options).schema(environment)
            return (schema, "\(container), \(environment.rawValue)")
        }
    }
}

extension SchemaCode.Form: ExpressibleByArgument {}
extension SchemaCode.Access: ExpressibleByArgument {}
