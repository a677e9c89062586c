// SPDX-License-Identifier: Apache-2.0
/*
 * Evaluates a ValidatingAdmissionPolicy as the API server does, with somebody else's CEL. Each line of standard input is
 *
 *     {"policy": spec, "request": AdmissionRequest, "object": …, "oldObject": …, "namespaceObject": …}
 *
 * and each line of output {"matched": bool, "refusals": [message]}. Without a request the output is {"faults": [message]}: what
 * cannot be parsed. The argument is the folder that has node_modules.
 */
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const installed = createRequire(`${process.argv[2]}/`);
const { celEnv, isCelError, parse, plan } = installed('@bufbuild/cel');
const { strings } = installed('@bufbuild/cel/ext');

const environment = celEnv({ funcs: strings });
const plans = new Map();

/* As the API server has objects: integers are no doubles, and tables are maps by text. */
function toCel(value) {
        if (Array.isArray(value))
                return value.map(toCel);
        if (value !== null && typeof value === 'object')
                return new Map(Object.entries(value).map(([key, inner]) => [key, toCel(inner)]));
        return Number.isInteger(value) ? BigInt(value) : value;
}

/* The value, or an Error: the library returns some and throws others. */
function evaluate(expression, bindings) {
        try {
                if (!plans.has(expression))
                        plans.set(expression, plan(environment, parse(expression)));
                const result = plans.get(expression)(bindings);
                return isCelError(result) ? new Error(result.message) : result;
        } catch (error) {
                return error;
        }
}

/* An expression of a variable that cannot be evaluated fails what uses it, and nothing else: such a variable is not there. */
function evaluateVariables(variables, bindings) {
        for (const { name, expression } of variables ?? []) {
                const value = evaluate(expression, bindings);
                if (!(value instanceof Error))
                        bindings.variables.set(name, value);
        }
}

/* True, false, or an Error where that decides: one condition that does not hold is enough. */
function matches(conditions, bindings) {
        let failure = null;
        for (const { name, expression } of conditions ?? []) {
                const value = evaluate(expression, bindings);
                if (value === false)
                        return false;
                if (value !== true)
                        failure ??= new Error(`the condition ${name}: ${value instanceof Error ? value.message : 'is no bool'}`);
        }
        return failure ?? true;
}

function messageOf(validation, bindings) {
        const told = validation.messageExpression ? evaluate(validation.messageExpression, bindings) : '';
        const text = typeof told === 'string' && !told.includes('\n') ? told.trim() : '';
        return text || validation.message || `failed expression: ${validation.expression}`;
}

function judge({ policy, request, object = null, oldObject = null, namespaceObject = null }) {
        const bindings = { request: toCel(request), object: toCel(object), oldObject: toCel(oldObject),
                namespaceObject: toCel(namespaceObject), variables: new Map() };
        const isFailing = (policy.failurePolicy ?? 'Fail') === 'Fail';
        const matched = matches(policy.matchConditions, bindings);
        const refusals = [];

        if (matched instanceof Error)
                return { matched: isFailing, refusals: isFailing ? [matched.message] : [] };
        if (!matched)
                return { matched, refusals };
        evaluateVariables(policy.variables, bindings);
        for (const validation of policy.validations) {
                const value = evaluate(validation.expression, bindings);
                if (value === false)
                        refusals.push(messageOf(validation, bindings));
                else if (value !== true && isFailing)
                        refusals.push(`expression '${validation.expression}' resulted in error: ${value.message ?? 'no bool'}`);
        }
        return { matched, refusals };
}

/* The API server refuses a policy that cannot be parsed. */
function check(policy) {
        const all = [...(policy.matchConditions ?? []), ...(policy.variables ?? []), ...policy.validations,
                ...policy.validations.filter((one) => one.messageExpression).map((one) => ({ expression: one.messageExpression }))];
        return all.flatMap(({ expression }) => {
                try {
                        parse(expression);
                        return [];
                } catch (error) {
                        return [`${expression}: ${error.message}`];
                }
        });
}

for await (const line of createInterface({ input: process.stdin })) {
        const asked = JSON.parse(line);
        process.stdout.write(JSON.stringify(asked.request ? judge(asked) : { faults: check(asked.policy) }) + '\n');
}
