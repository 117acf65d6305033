// Evaluates directives of a profile as Nextflow does: closures that see `task`.
//
// Arguments: the config file, the profile.  Each line of the standard input is a JSON object
// with `directive` and `task`; each line of the output is the value, as JSON.
import groovy.json.JsonOutput
import groovy.json.JsonSlurper

def slurper = new ConfigSlurper()
slurper.registerConditionalBlock('profiles', args[1])
def process = slurper.parse(new File(args[0]).toURI().toURL()).process

System.in.eachLine { line ->
    def asked = new JsonSlurper().parseText(line)
    def value = process[asked.directive]
    if (value instanceof Closure) {
        value = value.rehydrate([task: asked.task], value.owner, value.thisObject)
        value.resolveStrategy = Closure.DELEGATE_FIRST
        value = value.call()
    }
    println JsonOutput.toJson(value instanceof CharSequence ? value.toString() : value)
}
